/// Stops asking for something that keeps failing, an upstream or one resource, and probes its way back with one request at a time.
///
/// Closed, it lets everything pass. It opens when attempts fail several times in a row, or half of those in the last
/// seconds. Open, it lets nothing pass for a while; then a single request, the probe: its success closes it, its failure
/// doubles the while, up to a bound. Outcomes of requests from before it opened change nothing any more.
public struct CircuitBreaker: Sendable {
  /// Whether a request may go.
  public enum Admission: Sendable, Equatable {
    /// It may: record what came of it.
    case pass(CircuitPass)
    /// The upstream is not asked now; when it is worth coming back.
    case open(retryAfter: Duration)
  }

  private enum State: Sendable {
    case closed
    /// No request passes until then.
    case open(until: Duration)
    /// One is out; if nothing is heard of it by then, another may go.
    case probing(until: Duration)
  }

  private let limits: CircuitLimits
  private var state = State.closed
  private var window: FailureWindow
  private var consecutive = 0
  /// When a failure was last counted. What had begun by then and broke off may have been on the same connection.
  private var lastFailure: Duration?
  private var pause: Duration
  private var epoch: UInt64 = 0
  /// When it last ceased to be closed.
  private var opened = Duration.zero

  /// A closed one.
  public init(_ limits: CircuitLimits = CircuitLimits()) {
    self.limits = limits
    window = FailureWindow(limits.window)
    pause = limits.firstPause
  }

  /// Whether requests pass.
  public var isClosed: Bool {
    if case .closed = state { true } else { false }
  }

  /// How long nothing may go; nil if something may. Changes nothing, unlike `admit`.
  public func refusal(now: Duration) -> Duration? {
    switch state {
    case .closed: nil
    case .open(let until), .probing(let until): now < until ? min(until - now, pause) : nil
    }
  }

  /// Asks whether a request may go.
  public mutating func admit(now: Duration) -> Admission {
    switch state {
    case .closed:
      return .pass(CircuitPass(isProbe: false, epoch: epoch, began: now))
    case .open(let until), .probing(let until):
      guard now >= until else { return .open(retryAfter: min(until - now, pause)) }
      epoch += 1
      state = .probing(until: now + limits.probeTime)
      return .pass(CircuitPass(isProbe: true, epoch: epoch, began: now))
    }
  }

  /// Reports what came of a request that passed.
  ///
  /// - Parameter mayOpen: Whether the failures are evidence enough to open a closed one.
  public mutating func record(
    _ outcome: CircuitOutcome, of pass: CircuitPass, mayOpen: Bool = true, now: Duration
  ) {
    guard pass.epoch == epoch else { return }
    switch state {
    case .closed: count(outcome, of: pass, mayOpen: mayOpen, now: now)
    case .probing: probed(outcome, now: now)
    case .open: break
    }
  }

  /// Reports that a request which was let past an open one, without being its probe, succeeded.
  public mutating func succeeded(_ pass: CircuitPass) {
    if !isClosed, pass.began >= opened { close() }
  }

  private mutating func probed(_ outcome: CircuitOutcome, now: Duration) {
    switch outcome {
    case .success: close()
    case .failure, .broken, .resourceFailure:
      pause = min(pause * 2, limits.longestPause)
      open(now: now)
    case .neutral: state = .open(until: now)
    }
  }

  private mutating func count(_ outcome: CircuitOutcome, of pass: CircuitPass, mayOpen: Bool, now: Duration) {
    switch outcome {
    case .neutral: return
    case .broken where lastFailure.map({ pass.began <= $0 }) ?? false: return
    case .success: consecutive = 0
    case .failure, .broken, .resourceFailure:
      consecutive += 1
      lastFailure = now
    }
    window.record(failed: outcome != .success, now: now)
    if mayOpen, consecutive >= limits.consecutive || hasFailedTooOften { open(now: now) }
  }

  private var hasFailedTooOften: Bool {
    window.attempts >= limits.leastAttempts && window.failures * 100 >= window.attempts * limits.failurePercent
  }

  private mutating func open(now: Duration) {
    if isClosed { opened = now }
    epoch += 1
    state = .open(until: now + pause)
  }

  private mutating func close() {
    epoch += 1
    state = .closed
    window = FailureWindow(limits.window)
    consecutive = 0
    lastFailure = nil
    pause = limits.firstPause
  }
}
