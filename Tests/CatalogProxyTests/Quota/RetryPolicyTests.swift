import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import CatalogProxy

@Suite struct RetryPolicyTests {
  private func decision(_ attempt: Attempt, budget: Int = 1, seed: UInt64 = 1) -> RetryPolicy.Decision {
    var random = SplitMix(seed: seed)
    var purse = RetryBudget()
    while purse.available > budget { _ = purse.withdraw() }
    return RetryPolicy().decision(after: attempt, budget: &purse, using: &random)
  }

  private func failed(
    _ cause: UpstreamError.Cause, _ progress: UpstreamError.Progress, _ method: HTTPRequest.Method = .get,
    number: Int = 1
  ) -> Attempt {
    Attempt(method, .failed(UpstreamError(cause, progress, "x")), number: number, timeLeft: .seconds(10))
  }

  @Test(
    "what provably did not reach Apple is sent again at once, nine times at most, whatever the method",
    arguments: [HTTPRequest.Method.get, .post, .delete])
  func unprocessed(method: HTTPRequest.Method) {
    #expect(decision(failed(.connectionTerminated, .unprocessed, method)) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, method, number: 9)) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, method, number: 10)) == .giveUp)
  }

  @Test("a connection that goes away takes nothing out of the budget, unless it happens three times in a row")
  func goAway() {
    #expect(decision(failed(.connectionTerminated, .unprocessed), budget: 0) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, number: 2), budget: 0) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, number: 3), budget: 0) == .giveUp)
    #expect(decision(failed(.connectionTerminated, .unprocessed, number: 3), budget: 1) == .retry(after: .zero))
  }

  @Test("content that has been read in part is not sent again")
  func content() {
    var attempt = failed(.connectionTerminated, .unprocessed, .post)
    attempt.hasReadContent = true
    #expect(decision(attempt) == .giveUp)
  }

  @Test("where connecting failed, it is tried once more after a moment", arguments: [1, 2, 3] as [UInt64])
  func reconnect(seed: UInt64) {
    for cause in [UpstreamError.Cause.connectionRefused, .dnsError, .destinationIPUnroutable, .tlsAlertReceived] {
      guard case .retry(let pause) = decision(failed(cause, .unprocessed), seed: seed) else {
        Issue.record("\(cause) given up")
        continue
      }
      #expect((.milliseconds(200)...(.milliseconds(300))).contains(pause))
      #expect(decision(failed(cause, .unprocessed, number: 2)) == .giveUp)
      #expect(decision(failed(cause, .unprocessed), budget: 0) == .giveUp)
    }
  }

  @Test(
    "what would fail the same way again is not tried",
    arguments: [
      UpstreamError.Cause.tlsCertificateError, .connectionLimitReached, .connectionTimeout, .dnsTimeout, .cancelled,
      .proxyInternalError,
    ])
  func hopeless(cause: UpstreamError.Cause) {
    #expect(decision(failed(cause, .unprocessed)) == .giveUp)
  }

  @Test("a question that a connection broke off under is asked once more, out of the budget")
  func unanswered() {
    for method in [HTTPRequest.Method.get, .head] {
      #expect(decision(failed(.connectionTerminated, .unanswered, method)) == .retry(after: .zero))
      #expect(decision(failed(.connectionTerminated, .unanswered, method, number: 2)) == .giveUp)
      #expect(decision(failed(.connectionTerminated, .unanswered, method), budget: 0) == .giveUp)
    }
  }

  @Test("a change that may have reached Apple is not sent again", arguments: UpstreamError.Cause.allCases)
  func changes(cause: UpstreamError.Cause) {
    for method in [HTTPRequest.Method.post, .put, .patch, .delete] {
      #expect(decision(failed(cause, .unanswered, method)) == .giveUp)
    }
  }

  @Test(
    "what took too long, or was given up, is not asked again",
    arguments: [
      UpstreamError.Cause.connectionReadTimeout, .responseTimeout, .connectionWriteTimeout, .cancelled,
      .proxyInternalError, .responseHeaderSectionSize,
    ])
  func late(cause: UpstreamError.Cause) {
    #expect(decision(failed(cause, .unanswered)) == .giveUp)
  }

  @Test("an answer that has begun is not asked for again", arguments: UpstreamError.Cause.allCases)
  func answered(cause: UpstreamError.Cause) {
    #expect(decision(failed(cause, .answered)) == .giveUp)
  }

  private func limited(
    _ method: HTTPRequest.Method = .get, number: Int = 1, since: Duration = .zero, timeLeft: Duration = .seconds(10),
    retryAfter: Duration? = nil
  ) -> Attempt {
    var attempt = Attempt(method, .limited(retryAfter: retryAfter), number: number, timeLeft: timeLeft)
    attempt.sinceLimited = since
    return attempt
  }

  @Test("after a 429 a question waits for about half a second, and not all for the same time")
  func firstPause() {
    var pauses: Set<Duration> = []
    for seed in 1...100 as ClosedRange<UInt64> {
      guard case .retry(let pause) = decision(limited(), seed: seed) else {
        Issue.record("given up")
        continue
      }
      #expect((.milliseconds(400)...(.milliseconds(600))).contains(pause))
      pauses.insert(pause)
    }
    #expect(pauses.count > 50)
  }

  @Test("429s are waited out for three and a half seconds in all")
  func longestWait() {
    for seed in 1...100 as ClosedRange<UInt64> {
      var since = Duration.zero
      var number = 1
      while case .retry(let pause) = decision(limited(number: number, since: since), seed: seed &+ UInt64(number)) {
        since += pause
        number += 1
      }
      #expect((3...4).contains(number) && since <= .milliseconds(3500), "\(number) attempts, \(since)")
    }
  }

  @Test("a 429 is not waited out for a change, past the deadline, or without budget")
  func notWaited() {
    #expect(decision(limited(.post)) == .giveUp)
    #expect(decision(limited(timeLeft: .milliseconds(300))) == .giveUp)
    #expect(decision(limited(), budget: 0) == .giveUp)
  }

  @Test("a Retry-After of Apple's is heeded, and given up on if it is too long")
  func retryAfter() {
    #expect(decision(limited(retryAfter: .seconds(2))) == .retry(after: .seconds(2)))
    #expect(decision(limited(retryAfter: .seconds(60))) == .giveUp)
    #expect(decision(limited(since: .seconds(2), retryAfter: .seconds(2))) == .giveUp)
  }

  @Test("with everything failing, at most 1.2 attempts are made for each of ten thousand requests")
  func budget() {
    var random = SplitMix(seed: 7)
    let endings: [Attempt.Ending] = [
      .limited(retryAfter: nil), .failed(UpstreamError(.connectionTerminated, .unanswered, "x")),
    ]
    for ending in endings {
      var budget = RetryBudget()
      for _ in 0..<1000 {
        budget.requested()
        budget.succeeded()
      }
      var attempts = 0
      for _ in 0..<10_000 {
        budget.requested()
        var number = 1
        while case .retry = RetryPolicy().decision(
          after: Attempt(.get, ending, number: number, timeLeft: .seconds(10)), budget: &budget, using: &random)
        {
          number += 1
        }
        attempts += number
      }
      #expect((10_001...12_000).contains(attempts), "\(attempts)")
    }
  }

  @Test("a server that has just begun makes at most 1.2 attempts for each of a hundred requests")
  func smallBudget() {
    var budget = RetryBudget()
    var retries = 0
    for _ in 0..<100 {
      budget.requested()
      while budget.withdraw() { retries += 1 }
    }
    #expect(retries == 20)
  }

  @Test("what is saved is bounded")
  func savings() {
    var budget = RetryBudget()
    for _ in 0..<100_000 { budget.succeeded() }
    #expect(budget.available == 400)
  }
}
