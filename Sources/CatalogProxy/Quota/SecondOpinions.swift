/// Requests that are let past an open circuit because their callers' requests have not failed. One caller whose requests
/// all fail could otherwise keep the circuit open for all: it asks often enough to make every probe.
struct SecondOpinions: Sendable {
  /// The most in a while: a page's requests at once.
  static let most = 32

  private let period: Duration
  private var began = Duration.zero
  /// How many each client has given since then.
  private var given: [UInt64: Int] = [:]
  private var total = 0

  /// - Parameter period: How long a while is.
  init(period: Duration) {
    self.period = period
  }

  /// Whether a client that may give `allowed` of them has one left.
  func isFree(for client: UInt64, allowed: Int, now: Duration) -> Bool {
    guard now - began < period else { return allowed > 0 }
    return given[client, default: 0] < allowed && total < Self.most
  }

  /// Counts one.
  mutating func take(for client: UInt64, now: Duration) {
    if now - began >= period { (began, given, total) = (now, [:], 0) }
    given[client, default: 0] += 1
    total += 1
  }
}
