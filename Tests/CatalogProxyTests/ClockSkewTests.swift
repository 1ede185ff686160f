import Testing

@testable import CatalogProxy

@Suite struct ClockSkewTests {
  private static let noon = 1_795_000_000

  /// A response that took `latency` seconds, from a clock that is `skew` seconds ahead, written at its very end.
  private func note(_ skew: inout ClockSkew, _ ahead: Int, latency: Int = 0, at now: Int = 0) {
    let sent = Self.noon + now
    skew.note(date: sent + latency + ahead, sentAt: sent, receivedAt: sent + latency, now: .seconds(now))
  }

  @Test("is 0 before the first response, and what a quick response shows", arguments: [-3600, -90, 0, 1, 90, 3600])
  func quick(ahead: Int) {
    var skew = ClockSkew()
    #expect(skew.seconds(now: .zero) == 0)
    note(&skew, ahead)
    #expect(skew.seconds(now: .zero) == ahead)
  }

  @Test("is not made of latency", arguments: [1, 10, 30])
  func latency(_ seconds: Int) {
    var skew = ClockSkew()
    note(&skew, 0, latency: seconds)
    #expect(skew.seconds(now: .zero) == 0)
    // Written at once, and ten seconds on its way.
    skew.note(date: Self.noon, sentAt: Self.noon, receivedAt: Self.noon + seconds, now: .zero)
    #expect(skew.seconds(now: .zero) == 0)
  }

  @Test("is found among slow responses by the quickest, which counts for five minutes at least and ten at most")
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

  @Test("follows a clock that was set, either way")
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

  @Test("is bounded, whatever a Date says", arguments: [Int.min, -62_135_596_800, 253_402_300_799, Int.max])
  func bounds(date: Int) {
    var skew = ClockSkew()
    skew.note(date: date, sentAt: Self.noon, receivedAt: Self.noon, now: .zero)
    #expect(abs(skew.seconds(now: .zero)) == ClockSkew.largest)
  }
}
