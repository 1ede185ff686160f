import Testing

@testable import UpstreamAdmission

@Suite struct ClockSkewTests {
  private static let noon = 1_795_000_000

  /// A response that took `latency` seconds from an upstream whose clock is `ahead` seconds ahead, dated when it was
  /// received.
  private func note(_ skew: inout ClockSkew, _ ahead: Int, latency: Int = 0, at now: Int = 0) {
    let sent = Self.noon + now
    skew.note(date: sent + latency + ahead, sentAt: sent, receivedAt: sent + latency, now: .seconds(now))
  }

  @Test(
    "the clock skew is 0 before the first response, and then what a response without latency shows",
    arguments: [-3600, -90, 0, 1, 90, 3600])
  func quick(ahead: Int) {
    var skew = ClockSkew()
    #expect(skew.seconds(now: .zero) == 0)
    note(&skew, ahead)
    #expect(skew.seconds(now: .zero) == ahead)
  }

  @Test("the clock skew excludes latency", arguments: [1, 10, 30])
  func latency(_ seconds: Int) {
    var skew = ClockSkew()
    note(&skew, 0, latency: seconds)
    #expect(skew.seconds(now: .zero) == 0)
    // Dated when the request was sent, received `seconds` later.
    skew.note(date: Self.noon, sentAt: Self.noon, receivedAt: Self.noon + seconds, now: .zero)
    #expect(skew.seconds(now: .zero) == 0)
  }

  @Test("the clock skew comes from the fastest response of a window of five to ten minutes")
  func window() {
    var skew = ClockSkew()
    note(&skew, 90, latency: 60, at: 0)
    #expect(skew.seconds(now: .zero) == 90)
    skew.note(date: Self.noon + 90, sentAt: Self.noon, receivedAt: Self.noon + 60, now: .seconds(1))
    #expect(skew.seconds(now: .seconds(1)) == 90)
    #expect(skew.seconds(now: .seconds(299)) == 90)
    #expect(skew.seconds(now: .seconds(599)) == 90)
    #expect(skew.seconds(now: .seconds(1300)) == 0)
  }

  @Test("the clock skew follows a clock that is set forward or back")
  func step() {
    var skew = ClockSkew()
    note(&skew, 0, at: 0)
    note(&skew, 600, at: 1)
    #expect(skew.seconds(now: .seconds(1)) == 600)
    note(&skew, -600, at: 2)
    #expect(skew.seconds(now: .seconds(2)) == -600)
    note(&skew, 0, at: 3)
    #expect(skew.seconds(now: .seconds(3)) == 0)
  }

  @Test("the clock skew is bounded for any Date", arguments: [Int.min, -62_135_596_800, 253_402_300_799, Int.max])
  func bounds(date: Int) {
    var skew = ClockSkew()
    skew.note(date: date, sentAt: Self.noon, receivedAt: Self.noon, now: .zero)
    #expect(abs(skew.seconds(now: .zero)) == ClockSkew.largest)
  }
}
