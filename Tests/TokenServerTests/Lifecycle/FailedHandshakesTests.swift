import EventLoop
import TLS
import Testing

@testable import TokenServer

@Suite("A failed TLS handshake")
struct FailedHandshakesTests {
  private let log = FailedHandshakes()
  private let start = Deadline(nanoseconds: 1_000_000_000_000)
  private let peer = IPAddress("192.0.2.1")

  @Test("is logged once for each cause and peer")
  func once() {
    #expect(log.admit(.untrustedCertificate, of: peer, at: start) == 0)
    #expect(log.admit(.untrustedCertificate, of: peer, at: start) == nil)
    #expect(log.admit(.timedOut, of: peer, at: start) == 0)
    #expect(log.admit(.untrustedCertificate, of: IPAddress("192.0.2.2"), at: start) == 0)
    #expect(log.admit(.untrustedCertificate, of: nil, at: start) == 0)
    #expect(log.admit(.untrustedCertificate, of: nil, at: start) == nil)
  }

  @Test("is logged again after the pause, with the number of suppressed lines")
  func again() {
    for suppressed in [0, nil, nil] as [Int?] { #expect(log.admit(.closed, of: peer, at: start) == suppressed) }
    let end = start.advanced(by: FailedHandshakes.pause)
    #expect(log.admit(.closed, of: peer, at: end) == 2)
    #expect(log.admit(.closed, of: peer, at: end) == nil)
  }

  @Test("is logged only once per cause while the table of peers is full")
  func bounded() {
    for number in 0..<FailedHandshakes.maximum {
      #expect(log.admit(.notTLS, of: IPAddress(v4: UInt32(number)), at: start) == 0)
    }
    for number in 0..<1000 {
      let other = IPAddress(v4: UInt32(100_000 + number))
      #expect(log.admit(.notTLS, of: other, at: start) == (number == 0 ? 0 : nil))
    }
    let later = start.advanced(by: FailedHandshakes.pauseOfOthers)
    #expect(log.admit(.notTLS, of: peer, at: later) == 999)
    #expect(log.admit(.notTLS, of: IPAddress(v4: 1), at: later) == nil, "it is still known")
    let end = start.advanced(by: FailedHandshakes.pause)
    #expect(log.admit(.notTLS, of: peer, at: end) == 0)
    #expect(log.admit(.notTLS, of: peer, at: end) == nil)
  }
}
