import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite struct CircuitBreakerTests {
  /// Sends a request if the breaker admits it, and records its outcome immediately.
  @discardableResult
  private func ask(
    _ breaker: inout CircuitBreaker, _ outcome: CircuitOutcome, at milliseconds: Int
  ) -> CircuitPass? {
    let now = Duration.milliseconds(milliseconds)
    let admission = breaker.admit(now: now)
    if let pass = admission { breaker.record(outcome, of: pass, now: now) }
    return admission
  }

  private func opened(at milliseconds: Int = 0) -> CircuitBreaker {
    var breaker = CircuitBreaker()
    for _ in 0..<5 { ask(&breaker, .failure, at: milliseconds) }
    return breaker
  }

  @Test("five consecutive failures open the breaker")
  func consecutive() {
    var breaker = CircuitBreaker()
    for _ in 0..<4 { ask(&breaker, .failure, at: 0) }
    #expect(breaker.isClosed)
    ask(&breaker, .failure, at: 0)
    #expect(!breaker.isClosed)
    #expect(breaker.admit(now: .zero) == nil)
    #expect(breaker.refusal(now: .zero) == .milliseconds(500))
  }

  @Test("a success restarts the count of consecutive failures")
  func interrupted() {
    var breaker = CircuitBreaker()
    for _ in 0..<4 {
      for _ in 0..<4 { ask(&breaker, .failure, at: 0) }
      ask(&breaker, .success, at: 0)
      for _ in 0..<20 { ask(&breaker, .success, at: 0) }
    }
    #expect(breaker.isClosed)
  }

  @Test("failures of half of twenty attempts in ten seconds open the breaker")
  func share() {
    var breaker = CircuitBreaker()
    for step in 0..<19 { ask(&breaker, step.isMultiple(of: 2) ? .failure : .success, at: 100 * step) }
    #expect(breaker.isClosed)
    ask(&breaker, .failure, at: 1900)
    #expect(!breaker.isClosed)
  }

  @Test("attempts more than ten seconds ago do not count")
  func window() {
    var breaker = CircuitBreaker()
    for step in 0..<200 { ask(&breaker, step.isMultiple(of: 2) ? .failure : .success, at: 1000 * step) }
    #expect(breaker.isClosed, "ten attempts in ten seconds are too few to judge by")
  }

  @Test("a hundred requests that break off at the same time count as one failure")
  func broken() {
    var breaker = CircuitBreaker()
    for round in 0..<5 {
      let now = Duration.seconds(round)
      let passes = (0..<100).map { _ in breaker.admit(now: now) }
      for case let pass? in passes { breaker.record(.broken, of: pass, now: now) }
      #expect(breaker.isClosed == (round < 4), "in round \(round)")
    }
  }

  @Test("a cancelled request does not count")
  func neutral() {
    var breaker = CircuitBreaker()
    for _ in 0..<100 { ask(&breaker, .neutral, at: 0) }
    #expect(breaker.isClosed)
  }

  @Test("an open breaker admits a single probe, and closes after its success")
  func probe() {
    var breaker = opened()
    #expect(breaker.admit(now: .milliseconds(499)) == nil)
    #expect(breaker.refusal(now: .milliseconds(499)) == .milliseconds(1))
    guard let probe = breaker.admit(now: .milliseconds(500)) else {
      Issue.record("no probe")
      return
    }
    #expect(probe.isProbe)
    #expect(breaker.admit(now: .milliseconds(501)) == nil)
    #expect(breaker.refusal(now: .milliseconds(501)) == .milliseconds(500))
    breaker.record(.success, of: probe, now: .milliseconds(600))
    #expect(breaker.isClosed)
    for _ in 0..<4 { ask(&breaker, .failure, at: 700) }
    #expect(breaker.isClosed, "what was before is forgotten")
  }

  @Test("failed probes repeat at growing intervals of up to two seconds")
  func growing() {
    var breaker = opened()
    var probes: [Int] = []
    for millisecond in 0..<10_000 {
      if ask(&breaker, .failure, at: millisecond) != nil { probes.append(millisecond) }
    }
    #expect(probes == [500, 1500, 3500, 5500, 7500, 9500])
  }

  @Test(
    "the breaker closes at most five seconds after the upstream recovers", arguments: [0, 1501, 7501, 20_000])
  func back(at revival: Int) {
    var breaker = opened()
    var time = 0
    while !breaker.isClosed {
      ask(&breaker, time >= revival ? .success : .failure, at: time)
      time += 10
    }
    #expect(time - revival <= 5000)
  }

  @Test("a cancelled probe is replaced immediately, and a probe without an outcome after ten seconds")
  func lostProbe() {
    var breaker = opened()
    ask(&breaker, .neutral, at: 500)
    guard let lost = breaker.admit(now: .milliseconds(501)) else {
      Issue.record("no probe")
      return
    }
    #expect(breaker.admit(now: .milliseconds(10_500)) == nil)
    #expect(breaker.refusal(now: .milliseconds(10_500)) == .milliseconds(1))
    guard breaker.admit(now: .milliseconds(10_501)) != nil else {
      Issue.record("no second probe")
      return
    }
    breaker.record(.success, of: lost, now: .milliseconds(10_502))
    #expect(!breaker.isClosed, "the first one is out of date")
  }

  @Test("outcomes of requests admitted before the breaker opened change nothing")
  func late() {
    var breaker = CircuitBreaker()
    guard let early = breaker.admit(now: .zero) else {
      Issue.record("refused")
      return
    }
    for _ in 0..<5 { ask(&breaker, .failure, at: 0) }
    breaker.record(.success, of: early, now: .milliseconds(1))
    #expect(!breaker.isClosed)
    ask(&breaker, .success, at: 500)
    for _ in 0..<10 { breaker.record(.failure, of: early, now: .milliseconds(501)) }
    #expect(breaker.isClosed)
  }

  @Test("502, 503 and 504 are failures of the upstream, and every other 5xx a failure of the resource only")
  func statuses() {
    for code in [200, 301, 304, 400, 401, 404, 429] {
      #expect(CircuitOutcome(HTTPResponse.Status(code: code)) == .success)
    }
    for code in [502, 503, 504] { #expect(CircuitOutcome(HTTPResponse.Status(code: code)) == .failure) }
    for code in [500, 501, 505, 599] {
      #expect(CircuitOutcome(HTTPResponse.Status(code: code)) == .resourceFailure)
    }
  }

  @Test(
    """
    an exchange that the server ended is neutral, a broken exchange is broken, a header section that is too large is a \
    failure of the resource, and any other is a failure
    """)
  func causes() {
    let own: Set<UpstreamError.Cause> = [.cancelled, .connectionLimitReached, .proxyInternalError]
    let broken: Set<UpstreamError.Cause> = [
      .connectionTerminated, .protocolError, .tlsProtocolError, .tlsAlertReceived, .responseIncomplete,
    ]
    for cause in UpstreamError.Cause.allCases {
      let expected: CircuitOutcome =
        own.contains(cause)
        ? .neutral
        : broken.contains(cause) ? .broken : cause == .responseHeaderSectionSize ? .resourceFailure : .failure
      #expect(CircuitOutcome(UpstreamError(cause, .unanswered, "x")) == expected)
    }
  }

  @Test("a window has the counts of a list of all attempts", arguments: 1...5)
  func oracle(seed: UInt64) {
    var random = SplitMix(seed: seed)
    var window = FailureWindow()
    var all: [(slice: Int, failed: Bool)] = []
    var now = 0
    for _ in 0..<2000 {
      now += Int.random(in: 0..<10, using: &random) == 0 ? .random(in: 0..<30_000, using: &random) : 30
      let failed = Bool.random(using: &random)
      window.record(failed: failed, now: .milliseconds(now))
      all.append((now / 1000, failed))
      all.removeAll { $0.slice <= now / 1000 - 10 }
      #expect(window.attempts == all.count && window.failures == all.count { $0.failed })
    }
    window.record(failed: false, now: .zero)
    #expect(window.attempts == all.count + 1, "a clock that goes back does no harm")
  }
}
