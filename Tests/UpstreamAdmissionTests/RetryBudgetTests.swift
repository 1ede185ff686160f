import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite struct RetryBudgetTests {
  private func failed(on connection: UInt64?, hasFailed: Bool = false) -> Attempt {
    let error = UpstreamError(.connectionTerminated, .unanswered, "x", connection: connection)
    var attempt = Attempt(.get, .failed(error), number: hasFailed ? 2 : 1, timeLeft: .seconds(10))
    attempt.hasFailed = hasFailed
    return attempt
  }

  private func pays(_ budget: inout RetryBudget, for connection: UInt64? = nil) -> Bool {
    budget.withdraw(for: connection)
  }

  @Test("all requests of a failed connection cost one retry together, and each is retried once")
  func oneEvent() {
    var budget = RetryBudget()
    var random = SplitMix(seed: 1)
    for _ in 0..<100 {
      let decision = RetryPolicy.decision(after: failed(on: 7), budget: &budget, using: &random)
      #expect(decision == .retryOnce(after: .zero))
    }
    #expect(budget.available == RetryBudget.initial - 1)
    let second = RetryPolicy.decision(after: failed(on: 7, hasFailed: true), budget: &budget, using: &random)
    #expect(second == .giveUp)
  }

  @Test("each separate failure costs one retry, and so does each further connection")
  func separateEvents() {
    var budget = RetryBudget()
    for _ in 0..<3 { #expect(pays(&budget)) }
    for connection in 0..<3 as Range<UInt64> { #expect(pays(&budget, for: connection)) }
    #expect(budget.available == RetryBudget.initial - 6)
  }

  @Test("without budget, the requests of a connection are not retried")
  func empty() {
    var budget = RetryBudget()
    while budget.withdraw() {}
    #expect(!pays(&budget, for: 7))
    #expect(!pays(&budget, for: 7))
  }

  @Test("old connections are forgotten")
  func bounded() {
    var budget = RetryBudget()
    for _ in 0..<5000 { budget.earn() }
    for connection in 0..<200 as Range<UInt64> { #expect(pays(&budget, for: connection)) }
    let left = budget.available
    #expect(pays(&budget, for: 199))
    #expect(budget.available == left)
    #expect(pays(&budget, for: 0))
    #expect(budget.available == left - 1)
  }
}
