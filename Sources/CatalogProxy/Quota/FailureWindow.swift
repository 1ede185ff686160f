/// Attempts and failures of the last seconds, in ten slices that are forgotten one by one.
struct FailureWindow: Sendable {
  private static let slices = 10

  private let slice: Duration
  private var counts = [(attempts: Int, failures: Int)](repeating: (0, 0), count: slices)
  /// The slice that the last attempt fell into, counted from the clock's start.
  private var latest: Int64 = 0
  private(set) var attempts = 0
  private(set) var failures = 0

  init(_ length: Duration) {
    slice = max(length / Self.slices, .nanoseconds(1))
  }

  mutating func record(failed: Bool, now: Duration) {
    let index = advance(to: Int64(now / slice))
    counts[index].attempts += 1
    attempts += 1
    guard failed else { return }
    counts[index].failures += 1
    failures += 1
  }

  /// Forgets what is too old, and tells where the present is counted.
  private mutating func advance(to present: Int64) -> Int {
    // A clock that went back counts to the latest slice.
    let steps = min(max(present - latest, 0), Int64(Self.slices))
    latest = max(latest, present)
    for step in 0..<steps {
      let index = Int((latest - step) % Int64(Self.slices))
      attempts -= counts[index].attempts
      failures -= counts[index].failures
      counts[index] = (0, 0)
    }
    return Int(latest % Int64(Self.slices))
  }
}
