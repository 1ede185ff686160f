import EventLoop
import Locks
import Testing

@testable import TokenServer

@Suite("A log line about a peer")
struct PeerThrottleTests {
  private static let limits = (maximum: 1024, pause: Duration.seconds(600))

  private let log = Locked(PeerThrottle(maximum: limits.maximum, pause: limits.pause))
  private let start = Deadline(nanoseconds: 1_000_000_000_000)
  private let peer = IPAddress("192.0.2.1")

  private func admit(_ kind: String, of peer: IPAddress?, at now: Deadline) -> Int? {
    log.withLock { $0.admit(kind, of: peer, at: now) }
  }

  @Test("is written once for each kind and peer")
  func once() {
    #expect(admit("untrustedCertificate", of: peer, at: start) == 0)
    #expect(admit("untrustedCertificate", of: peer, at: start) == nil)
    #expect(admit("timedOut", of: peer, at: start) == 0)
    #expect(admit("untrustedCertificate", of: IPAddress("192.0.2.2"), at: start) == 0)
    #expect(admit("untrustedCertificate", of: nil, at: start) == 0)
    #expect(admit("untrustedCertificate", of: nil, at: start) == nil)
  }

  @Test("is written again after the pause, with the number of suppressed lines")
  func again() {
    for suppressed in [0, nil, nil] as [Int?] { #expect(admit("closed", of: peer, at: start) == suppressed) }
    let end = start.advanced(by: Self.limits.pause)
    #expect(admit("closed", of: peer, at: end) == 2)
    #expect(admit("closed", of: peer, at: end) == nil)
  }

  @Test("is written only once per kind while the table of peers is full")
  func bounded() {
    for number in 0..<Self.limits.maximum {
      #expect(admit("notTLS", of: IPAddress(v4: UInt32(number)), at: start) == 0)
    }
    for number in 0..<1000 {
      let other = IPAddress(v4: UInt32(100_000 + number))
      #expect(admit("notTLS", of: other, at: start) == (number == 0 ? 0 : nil))
    }
    let later = start.advanced(by: PeerThrottle.pauseOfOthers)
    #expect(admit("notTLS", of: peer, at: later) == 999)
    #expect(admit("notTLS", of: IPAddress(v4: 1), at: later) == nil, "it is still known")
    let end = start.advanced(by: Self.limits.pause)
    #expect(admit("notTLS", of: peer, at: end) == 0)
    #expect(admit("notTLS", of: peer, at: end) == nil)
  }

  @Test("is written only once for each peer without an end of the pause")
  func forever() {
    var log = PeerThrottle(maximum: 2, pause: .seconds(Int64.max))
    let end = Deadline(nanoseconds: .max - 1)
    #expect(log.admit("", of: peer, at: start) == 0)
    #expect(log.admit("", of: nil, at: start) == 0)
    #expect(log.admit("", of: IPAddress("192.0.2.2"), at: start) == 0, "it shares the line of all others")
    for peer in [peer, nil] { #expect(log.admit("", of: peer, at: end) == nil) }
  }
}
