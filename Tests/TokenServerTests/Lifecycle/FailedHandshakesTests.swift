import EventLoop
import Locks
import TLS
import Testing

@testable import TokenServer

@Suite("A failed TLS handshake")
struct FailedHandshakesTests {
  private let log = Locked(FailedHandshakes())
  private let start = Deadline(nanoseconds: 1_000_000_000_000)
  private let peer = IPAddress("192.0.2.1")

  private func admit(_ failure: TLSFailure, of peer: IPAddress?, at now: Deadline) -> Int? {
    log.withLock { $0.admit(failure, of: peer, at: now) }
  }

  @Test("is logged once for each cause and peer")
  func once() {
    #expect(admit(.untrustedCertificate, of: peer, at: start) == 0)
    #expect(admit(.untrustedCertificate, of: peer, at: start) == nil)
    #expect(admit(.timedOut, of: peer, at: start) == 0)
    #expect(admit(.untrustedCertificate, of: IPAddress("192.0.2.2"), at: start) == 0)
    #expect(admit(.untrustedCertificate, of: nil, at: start) == 0)
    #expect(admit(.untrustedCertificate, of: nil, at: start) == nil)
  }

  @Test("is logged again after the pause, with the number of suppressed lines")
  func again() {
    for suppressed in [0, nil, nil] as [Int?] { #expect(admit(.closed, of: peer, at: start) == suppressed) }
    let end = start.advanced(by: FailedHandshakes.pause)
    #expect(admit(.closed, of: peer, at: end) == 2)
    #expect(admit(.closed, of: peer, at: end) == nil)
  }

  @Test("is logged only once per cause while the table of peers is full")
  func bounded() {
    for number in 0..<FailedHandshakes.maximum {
      #expect(admit(.notTLS, of: IPAddress(v4: UInt32(number)), at: start) == 0)
    }
    for number in 0..<1000 {
      let other = IPAddress(v4: UInt32(100_000 + number))
      #expect(admit(.notTLS, of: other, at: start) == (number == 0 ? 0 : nil))
    }
    let later = start.advanced(by: FailedHandshakes.pauseOfOthers)
    #expect(admit(.notTLS, of: peer, at: later) == 999)
    #expect(admit(.notTLS, of: IPAddress(v4: 1), at: later) == nil, "it is still known")
    let end = start.advanced(by: FailedHandshakes.pause)
    #expect(admit(.notTLS, of: peer, at: end) == 0)
    #expect(admit(.notTLS, of: peer, at: end) == nil)
  }
}
