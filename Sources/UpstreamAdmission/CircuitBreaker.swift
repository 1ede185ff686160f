public import HTTPMessages
public import HTTPTypes

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

/// The bounds of a ``CircuitBreaker``: name, default, unit and reason.
public struct CircuitLimits: Sendable, Equatable {
  /// Failures in a row that open it: 5. Fewer happen to a healthy service.
  public var consecutive = 5

  /// The least attempts in the window for its share of failures to mean something: 20.
  public var leastAttempts = 20

  /// The share of failures in the window that opens it, in percent: 50.
  public var failurePercent = 50

  /// How long an attempt counts: 10 s.
  public var window: Duration = .seconds(10)

  /// How long it stays open before the first probe: 500 ms.
  public var firstPause: Duration = .milliseconds(500)

  /// The longest time between two probes: 2 s. Each that fails doubles it. An upstream that has come back is in use within
  /// 5 s, time to connect included.
  public var longestPause: Duration = .seconds(2)

  /// How long a probe may take before another request may be one: 10 s. Its caller may have gone and said nothing.
  public var probeTime: Duration = .seconds(10)

  /// The defaults.
  public init() {}
}

/// What an attempt says about the upstream's health.
public enum CircuitOutcome: Sendable, Equatable {
  /// It answers: everything below 500, 429 and 401 included.
  case success
  /// It failed: 502, 503, 504, too late, or out of reach.
  case failure
  /// It failed in its own way: 500 and every other 5xx. That says nothing about other resources.
  case resourceFailure
  /// The connection broke under the request. A hundred others may have been on it, and are no further evidence.
  case broken
  /// Nothing: the attempt was given up here.
  case neutral

  /// Of a response.
  public init(_ status: HTTPResponse.Status) {
    self =
      switch status.code {
      case ..<500: .success
      case 502, 503, 504: .failure
      default: .resourceFailure
      }
  }

  /// Of an exchange that failed.
  public init(_ error: UpstreamError) {
    switch error.cause {
    case .cancelled, .connectionLimitReached, .proxyInternalError: self = .neutral
    case .connectionTerminated, .protocolError, .tlsProtocolError, .tlsAlertReceived, .responseIncomplete:
      self = .broken
    case .dnsError, .dnsTimeout, .destinationUnavailable, .destinationIPUnroutable, .connectionRefused,
      .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .tlsCertificateError, .responseTimeout,
      .responseHeaderSectionSize:
      self = .failure
    }
  }
}

/// Leave to ask the upstream. What came of it is reported with it.
public struct CircuitPass: Sendable, Equatable {
  /// Whether it is the one request that finds out whether the upstream has come back.
  public let isProbe: Bool
  /// Whether it is a second opinion: of a caller that the failures are not of.
  var isOpinion = false
  /// Which closed time, or which probe, it belongs to.
  let epoch: UInt64
  let began: Duration
}

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
