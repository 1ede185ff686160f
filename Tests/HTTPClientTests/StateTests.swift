import ClientTransport
import EventLoop
import Testing

@testable import HTTPClient

@Suite("The state of the client")
struct StateTests {
  @Test("the back-off doubles up to its limit, is shortened by jitter, and ends with a success")
  func backOff() {
    var backOff = BackOff(least: .milliseconds(50), longest: .seconds(2))
    let now = Deadline(nanoseconds: 1_000_000_000)
    var pauses: [Duration] = []
    for _ in 0..<8 {
      backOff.failed(at: now, jitter: 0)
      pauses.append(backOff.until.duration(since: now))
    }
    #expect(pauses == [50, 100, 200, 400, 800, 1600, 2000, 2000].map { .milliseconds($0) })
    for _ in 0..<100 { backOff.failed(at: now, jitter: 1) }
    #expect(backOff.until.duration(since: now) == .seconds(1))
    backOff.succeeded()
    #expect(backOff.until <= now)
    backOff.failed(at: now, jitter: 0)
    #expect(backOff.until.duration(since: now) == .milliseconds(50))
  }

  @Test("connections that break with their requests make the back-off no longer than its least, and no shorter")
  func broken() {
    var backOff = BackOff(least: .milliseconds(50), longest: .seconds(2))
    let now = Deadline(nanoseconds: 1_000_000_000)
    for _ in 0..<8 {
      backOff.broke(at: now, jitter: 0)
      #expect(backOff.until.duration(since: now) == .milliseconds(50))
    }
    for _ in 0..<2 { backOff.failed(at: now, jitter: 0) }
    backOff.broke(at: now, jitter: 0)
    #expect(backOff.until.duration(since: now) == .milliseconds(100))
  }
}
