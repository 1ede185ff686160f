/// The resources that have failed of late, each with a circuit breaker of its own.
///
/// A resource is known from its first failure to its next success. At most ``most`` are known: the one that has not
/// failed for the longest time makes room.
struct ResourceCircuits: Sendable {
  /// The most resources that are known: 256, about 100 kB. A client that makes more fail at once only loses the memory of
  /// the oldest.
  static let most = 256

  private struct Entry: Sendable {
    var breaker: CircuitBreaker
    var lastFailure: Duration
  }

  private let limits: CircuitLimits
  private var entries: [UInt64: Entry] = [:]

  init(_ limits: CircuitLimits) {
    self.limits = limits
  }

  /// How many resources are known.
  var count: Int { entries.count }

  /// How long a resource is not asked for; nil if it may be.
  func refusal(for resource: UInt64, now: Duration) -> Duration? {
    entries.isEmpty ? nil : entries[resource]?.breaker.refusal(now: now)
  }

  /// Lets a request for a resource go that may. Nil if the resource is not known.
  mutating func admit(_ resource: UInt64, now: Duration) -> CircuitPass? {
    guard !entries.isEmpty, case .pass(let pass)? = entries[resource]?.breaker.admit(now: now) else { return nil }
    return pass
  }

  /// Reports what came of a request.
  ///
  /// - Parameters:
  ///   - pass: What `admit` gave.
  ///   - began: When the request was sent.
  mutating func record(
    _ outcome: CircuitOutcome, at resource: UInt64, of pass: CircuitPass?, began: Duration, now: Duration
  ) {
    let isFailure =
      switch outcome {
      case .failure, .broken, .resourceFailure: true
      case .success, .neutral: false
      }
    guard isFailure || !entries.isEmpty else { return }
    if isFailure, entries[resource] == nil { insert(resource, now: now) }
    guard var entry = entries[resource] else { return }
    // The first failures were sent before anything was known against the resource.
    entry.breaker.record(outcome, of: pass ?? CircuitPass(isProbe: false, epoch: 0, began: began), now: now)
    if isFailure { entry.lastFailure = now }
    entries[resource] = outcome == .success && entry.breaker.isClosed ? nil : entry
  }

  private mutating func insert(_ resource: UInt64, now: Duration) {
    if entries.count >= Self.most, let oldest = entries.min(by: { $0.value.lastFailure < $1.value.lastFailure }) {
      entries[oldest.key] = nil
    }
    entries[resource] = Entry(breaker: CircuitBreaker(limits), lastFailure: now)
  }
}
