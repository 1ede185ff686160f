import Testing

@testable import UpstreamAdmission

@Suite("The pacer") struct RatePacerTests {
  /// A pacer that has learned 21 requests a second: of forty simultaneous requests, twenty were refused, and a bucket
  /// would have refused the twenty-first as well.
  private static func taught(_ limits: PacingLimits = PacingLimits()) -> RatePacer {
    var pacer = RatePacer(limits)
    for index in 0..<40 { pacer.sent(now: 0.001 * Double(index), isWanted: true) }
    for index in 20..<40 { pacer.refused(sentAt: 0.001 * Double(index), retryAfter: nil, now: 0.1) }
    return pacer
  }

  @Test("delays nothing before the first 429")
  func free() {
    var pacer = RatePacer()
    for index in 0..<1000 { pacer.sent(now: 0.001 * Double(index), isWanted: true) }
    #expect(pacer.rate == nil && pacer.opening == 0 && !pacer.isPaused(now: 1))
  }

  @Test("learns one more than the requests accepted in the last second, and paces three percent below this rate")
  func first() {
    let pacer = Self.taught()
    #expect(pacer.rate == 21)
    #expect(abs(pacer.pace - 0.97 * 21) < 1e-9)
  }

  @Test("pauses once for all 429s of one burst, at least half a second from the first 429")
  func onePause() {
    var pacer = Self.taught()
    #expect(pacer.isPaused(now: 0.59))
    let opening = pacer.opening
    pacer.refused(sentAt: 0.0395, retryAfter: nil, now: 0.3)
    #expect(pacer.opening == opening, "a response that comes later prolongs nothing")
  }

  @Test("obeys Retry-After, up to 60 s", arguments: [(3.0, 3.0), (3600, 60), (0, 0.5)])
  func retryAfter(asked: Double, length: Double) {
    var pacer = RatePacer()
    pacer.sent(now: 0, isWanted: true)
    pacer.refused(sentAt: 0, retryAfter: asked, now: 0)
    #expect(pacer.isPaused(now: length - 0.001))
    #expect(!pacer.isPaused(now: max(length, 1.1) + 0.001))
    #expect(pacer.opening >= length)
  }

  @Test("spaces requests evenly, and allows late requests to catch up by 25 ms only")
  func spacing() {
    var pacer = Self.taught()
    pacer.sent(now: pacer.opening, isWanted: false)
    let opening = pacer.opening
    pacer.sent(now: opening + 0.01, isWanted: false)
    #expect(abs(pacer.opening - (opening + 1 / pacer.pace)) < 1e-9)
    pacer.sent(now: opening + 10, isWanted: false)
    #expect(abs(pacer.opening - (opening + 10 - 0.025 + 1 / pacer.pace)) < 1e-9)
  }

  @Test("does not raise its pace while no request waits")
  func unwanted() {
    var pacer = Self.taught()
    for _ in 0..<1000 { pacer.sent(now: pacer.opening, isWanted: false) }
    #expect(pacer.rate == 21 && abs(pacer.pace - 0.97 * 21) < 1e-9)
  }

  @Test("finds a larger quota in steps without a refusal, and drops the limit above 5,000 requests a second")
  func growth() {
    var pacer = Self.taught()
    var paces: Set<Double> = []
    while pacer.rate != nil, pacer.opening < 600 {
      paces.insert(pacer.pace)
      pacer.sent(now: pacer.opening, isWanted: true)
    }
    #expect(pacer.rate == nil)
    for factor in [1 + 1.4 / 21, 1 + 2.8 / 21, 1.5, 2, 2.5] {
      #expect(paces.contains { abs($0 - factor * 21) < 0.001 })
    }
  }

  @Test("sends one request at a time while nothing is accepted, and keeps the rate")
  func nothingGoes() {
    var pacer = Self.taught()
    var now = pacer.opening
    for _ in 0..<200 {
      pacer.sent(now: now, isWanted: true)
      pacer.refused(sentAt: now, retryAfter: nil, now: now + 0.1)
      #expect(pacer.opening - now <= 1.2 + 1, "a pause of 1 s at most, and one interval")
      now = pacer.opening
    }
    #expect(pacer.rate == 21)
    pacer.sent(now: now, isWanted: true)
    #expect(pacer.opening >= now + 0.4)
  }

  @Test("never learns a rate below one in two seconds")
  func leastRate() {
    var pacer = Self.taught()
    var now = pacer.opening
    // One request after each pause is accepted, and the next one is refused.
    for _ in 0..<200 {
      pacer.sent(now: now, isWanted: true)
      pacer.answered(sentAt: now, now: now + 0.1)
      now = max(pacer.opening, now + 0.1)
      pacer.sent(now: now, isWanted: true)
      pacer.refused(sentAt: now, retryAfter: nil, now: now + 0.1)
      now = max(pacer.opening, now + 0.1)
    }
    #expect(pacer.rate ?? 0 >= 0.5 && pacer.rate ?? 0 < 1)
  }

  @Test("the simulated bucket stores at most the requests of one second, and may be overdrawn")
  func imaginedBucket() {
    var bucket = ImaginedBucket()
    bucket.empty(now: 10)
    bucket.take(rate: 4, now: 10.5)
    #expect(bucket.stored == 1)
    bucket.take(rate: 4, now: 100)
    #expect(bucket.stored == 3)
    for _ in 0..<5 { bucket.take(rate: 4, now: 100) }
    #expect(bucket.stored == -2)
  }

  @Test("the history counts the requests that were not refused, and ignores refusals after five seconds")
  func history() {
    var history = SendHistory()
    for index in 0..<100 { history.record(at: Double(index) / 10) }
    history.refuse(sentAt: 9.5)
    history.refuse(sentAt: 1)
    let second = history.count(before: 9.9, window: 1)
    #expect(second.accepted == 9 && second.seconds == 1)
    #expect(history.accepted(before: 9.9) == 99, "a refusal of nine seconds ago comes too late")
    #expect(history.accepted(before: 8.9) == 90)
  }
}
