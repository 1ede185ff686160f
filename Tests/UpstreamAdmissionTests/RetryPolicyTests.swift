import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite struct RetryPolicyTests {
  private func decision(_ attempt: Attempt, budget: Int = 1, seed: UInt64 = 1) -> RetryPolicy.Decision {
    var random = SplitMix(seed: seed)
    var purse = RetryBudget()
    while purse.available > budget { _ = purse.withdraw() }
    return RetryPolicy.decision(after: attempt, budget: &purse, using: &random)
  }

  private func failed(
    _ cause: UpstreamError.Cause, _ progress: UpstreamError.Progress, _ method: HTTPRequest.Method = .get,
    number: Int = 1, hasFailed: Bool = false
  ) -> Attempt {
    var attempt = Attempt(method, .failed(UpstreamError(cause, progress, "x")), number: number, timeLeft: .seconds(10))
    attempt.hasFailed = hasFailed
    return attempt
  }

  @Test(
    "an unprocessed request of any method is retried immediately, at most nine times",
    arguments: [HTTPRequest.Method.get, .post, .delete])
  func unprocessed(method: HTTPRequest.Method) {
    #expect(decision(failed(.connectionTerminated, .unprocessed, method)) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, method, number: 9)) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, method, number: 10)) == .giveUp)
  }

  @Test("a connection that goes away costs no budget, except from the third consecutive time")
  func goAway() {
    #expect(decision(failed(.connectionTerminated, .unprocessed), budget: 0) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, number: 2), budget: 0) == .retry(after: .zero))
    #expect(decision(failed(.connectionTerminated, .unprocessed, number: 3), budget: 0) == .giveUp)
    #expect(decision(failed(.connectionTerminated, .unprocessed, number: 3), budget: 1) == .retry(after: .zero))
  }

  @Test("a request with partly read content is not retried")
  func content() {
    var attempt = failed(.connectionTerminated, .unprocessed, .post)
    attempt.hasReadContent = true
    #expect(decision(attempt) == .giveUp)
  }

  @Test("a failure to connect is retried once after a short pause", arguments: [1, 2, 3] as [UInt64])
  func reconnect(seed: UInt64) {
    for cause in [UpstreamError.Cause.connectionRefused, .dnsError, .destinationIPUnroutable, .tlsAlertReceived] {
      guard case .retryOnce(let pause) = decision(failed(cause, .unprocessed), seed: seed) else {
        Issue.record("\(cause) given up")
        continue
      }
      #expect((.milliseconds(200)...(.milliseconds(300))).contains(pause))
      #expect(decision(failed(cause, .unprocessed, number: 2, hasFailed: true)) == .giveUp)
      #expect(decision(failed(cause, .unprocessed), budget: 0) == .giveUp)
    }
  }

  @Test(
    "a failure that would repeat is not retried",
    arguments: [
      UpstreamError.Cause.tlsCertificateError, .connectionLimitReached, .connectionTimeout, .dnsTimeout, .cancelled,
      .proxyInternalError,
    ])
  func hopeless(cause: UpstreamError.Cause) {
    #expect(decision(failed(cause, .unprocessed)) == .giveUp)
  }

  @Test("a GET or HEAD that lost its connection is retried once, at the cost of the budget")
  func unanswered() {
    for method in [HTTPRequest.Method.get, .head] {
      #expect(decision(failed(.connectionTerminated, .unanswered, method)) == .retryOnce(after: .zero))
      #expect(decision(failed(.connectionTerminated, .unanswered, method, number: 2, hasFailed: true)) == .giveUp)
      #expect(decision(failed(.connectionTerminated, .unanswered, method), budget: 0) == .giveUp)
    }
  }

  @Test("a failure is retried too if a closing connection or a 429 was the reason for earlier attempts")
  func later() {
    #expect(decision(failed(.connectionTerminated, .unanswered, number: 9)) == .retryOnce(after: .zero))
    #expect(decision(failed(.connectionRefused, .unprocessed, number: 9)) != .giveUp)
  }

  @Test("a change that may have reached Apple is not retried", arguments: UpstreamError.Cause.allCases)
  func changes(cause: UpstreamError.Cause) {
    for method in [HTTPRequest.Method.post, .put, .patch, .delete] {
      #expect(decision(failed(cause, .unanswered, method)) == .giveUp)
    }
  }

  @Test(
    "a request that timed out or was cancelled is not retried",
    arguments: [
      UpstreamError.Cause.connectionReadTimeout, .responseTimeout, .connectionWriteTimeout, .cancelled,
      .proxyInternalError, .responseHeaderSectionSize,
    ])
  func late(cause: UpstreamError.Cause) {
    #expect(decision(failed(cause, .unanswered)) == .giveUp)
  }

  @Test("a request whose response has begun is not retried", arguments: UpstreamError.Cause.allCases)
  func answered(cause: UpstreamError.Cause) {
    #expect(decision(failed(cause, .answered)) == .giveUp)
  }

  private func limited(
    _ method: HTTPRequest.Method = .get, number: Int = 1, timeLeft: Duration = .seconds(10)
  ) -> Attempt {
    Attempt(method, .limited, number: number, timeLeft: timeLeft)
  }

  @Test("a GET or HEAD refused with 429 is retried four times, in its turn and without budget")
  func refused() {
    for method in [HTTPRequest.Method.get, .head] {
      for number in 1...4 { #expect(decision(limited(method, number: number), budget: 0) == .retry(after: .zero)) }
      #expect(decision(limited(method, number: 5)) == .giveUp)
    }
  }

  @Test("a change refused with 429, or a request without time left, is not retried")
  func notRepeated() {
    for method in [HTTPRequest.Method.post, .put, .patch, .delete] { #expect(decision(limited(method)) == .giveUp) }
    #expect(decision(limited(timeLeft: .zero)) == .giveUp)
  }

  @Test("if every request fails, at most 1.2 attempts are made for each of ten thousand requests")
  func budget() {
    var random = SplitMix(seed: 7)
    let endings: [Attempt.Ending] = [.failed(UpstreamError(.connectionTerminated, .unanswered, "x"))]
    for ending in endings {
      var budget = RetryBudget()
      for _ in 0..<1000 {
        budget.earn()
        budget.earn()
      }
      var attempts = 0
      for _ in 0..<10_000 {
        budget.earn()
        var attempt = Attempt(.get, ending, number: 1, timeLeft: .seconds(10))
        while case .retryOnce = RetryPolicy.decision(after: attempt, budget: &budget, using: &random) {
          (attempt.number, attempt.hasFailed) = (attempt.number + 1, true)
        }
        attempts += attempt.number
      }
      #expect((10_001...12_000).contains(attempts), "\(attempts)")
    }
  }

  @Test("a new server makes at most 1.2 attempts for each of a hundred requests")
  func smallBudget() {
    var budget = RetryBudget()
    var retries = 0
    for _ in 0..<100 {
      budget.earn()
      while budget.withdraw() { retries += 1 }
    }
    #expect(retries == 20)
  }

  @Test("the saved budget is bounded")
  func savings() {
    var budget = RetryBudget()
    for _ in 0..<100_000 { budget.earn() }
    #expect(budget.available == 400)
  }
}
