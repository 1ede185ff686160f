import Bytes

@testable import UpstreamAdmission

/// A concurrency limit with requests in flight that a test ends one by one, in the order in which they were sent.
struct Turnstile {
  var limit: ConcurrencyLimit<Int>
  private(set) var underWay: [(permit: ConcurrencyPermit, number: Int)] = []
  private(set) var tickets: [Int: QueueTicket] = [:]
  private(set) var refused = 0
  private var count = 0

  init(initial: Int = 8, maximum: Int = 8, waiting: Int = 16_384) {
    var limits = ConcurrencyLimits()
    limits.initial = initial
    limits.maximum = maximum
    limits.waiting = waiting
    limit = ConcurrencyLimit(limits)
  }

  /// Requests a turn for a caller of the only client; returns the request's number, and whether it is sent
  /// immediately.
  @discardableResult
  mutating func ask(_ caller: String) -> (number: Int, goes: Bool) {
    ask(QuotaCaller(client: "only", identity: ByteString(caller)))
  }

  /// Requests a turn for a caller of one of several clients.
  @discardableResult
  mutating func ask(
    _ caller: String, of client: String, share: Double = QuotaCaller.usualShare
  ) -> (number: Int, goes: Bool) {
    ask(QuotaCaller(client: HashedText(client), share: share, identity: ByteString(caller)))
  }

  private mutating func ask(_ caller: QuotaCaller) -> (number: Int, goes: Bool) {
    count += 1
    switch limit.acquire(.init(caller), waiter: count, now: .zero) {
    case .granted(let permit):
      underWay.append((permit, count))
      return (count, true)
    case .queued(let ticket): tickets[count] = ticket
    case .refused: refused += 1
    }
    return (count, false)
  }

  /// Ends the oldest request in flight; returns the numbers of the requests that are sent now.
  @discardableResult
  mutating func end(_ outcome: ConcurrencyOutcome = .answered, now: Duration = .zero) -> [Int] {
    guard !underWay.isEmpty else { return [] }
    let ended = underWay.removeFirst()
    let grants = limit.release(ended.permit, outcome, now: now)
    for grant in grants {
      underWay.append((grant.permit, grant.waiter))
      tickets[grant.waiter] = nil
    }
    return grants.map(\.waiter)
  }

  /// Cancels a waiting request; returns its number.
  mutating func cancel(_ ticket: QueueTicket) -> Int? {
    let number = limit.cancel(ticket)
    if let number { tickets[number] = nil }
    return number
  }
}
