public import HTTPMessages
public import HTTPTypes

/// Stops requests to an upstream or a resource that keeps failing, and then probes it with one request at a time.
///
/// A closed breaker opens after several failures in a row, or if half of the attempts in the last seconds failed. An open
/// one stops all requests for a pause. Then a single one passes, the probe. If it succeeds, the breaker closes. If it fails,
/// the pause doubles, up to a bound. Outcomes of requests from before the opening change nothing.
struct CircuitBreaker: Sendable {
  private enum Position: Sendable {
    case closed
    /// No request passes until this time.
    case open(until: Duration)
    /// A probe is in flight. If its outcome is unknown at this time, another probe may pass.
    case probing(until: Duration)
  }

  private var position = Position.closed
  private var window = FailureWindow()
  private var consecutive = 0
  /// The time of the last counted failure. An earlier request that breaks later may have used the same connection.
  private var lastFailure: Duration?
  private(set) var pause = CircuitLimits.firstPause
  private var epoch: UInt64 = 0
  /// The time of the last transition from closed to open.
  private var opened = Duration.zero
  /// Whether this breaker opened because another replica's did.
  private(set) var isLearned = false

  /// Whether all requests pass.
  var isClosed: Bool { if case .closed = position { true } else { false } }

  /// Returns how long no request may pass, or nil if one may. Unlike `admit`, changes no state.
  func refusal(now: Duration) -> Duration? {
    switch position {
    case .closed: nil
    case .open(let until), .probing(let until): now < until ? min(until - now, pause) : nil
    }
  }

  /// Admits a request, whose outcome must then be recorded. Returns nil if it must not be sent.
  mutating func admit(now: Duration) -> CircuitPass? {
    if isClosed { return CircuitPass(isProbe: false, epoch: epoch, began: now) }
    guard refusal(now: now) == nil else { return nil }
    epoch += 1
    position = .probing(until: now + CircuitLimits.probeTime)
    return CircuitPass(isProbe: true, epoch: epoch, began: now)
  }

  /// Records the outcome of a request that passed.
  ///
  /// - Parameter mayOpen: Whether the evidence is sufficient to open a closed breaker.
  mutating func record(_ outcome: CircuitOutcome, of pass: CircuitPass, mayOpen: Bool = true, now: Duration) {
    guard pass.epoch == epoch else { return }
    switch position {
    case .closed: count(outcome, of: pass, mayOpen: mayOpen, now: now)
    case .probing: probed(outcome, now: now)
    case .open: break
    }
  }

  /// Records the success of a request that passed an open breaker without being its probe.
  mutating func succeeded(_ pass: CircuitPass) {
    if !isClosed, pass.began >= opened { close() }
  }

  /// Opens because another replica's is open. Then it probes by itself: that one may have lost its own way.
  mutating func learn(pause: Duration, now: Duration) {
    guard isClosed else { return }
    isLearned = true
    open(now: now)
    position = .open(until: now + min(pause, CircuitLimits.longestPause * 2))
  }

  /// Another replica's breaker has closed. This one closes too if it opened only because of others. Otherwise its next
  /// request is a probe: the upstream may be unreachable from here alone.
  mutating func learnRecovery(now: Duration) {
    if isLearned { return close() }
    if case .open = position { position = .open(until: now) }
  }

  private mutating func probed(_ outcome: CircuitOutcome, now: Duration) {
    if outcome == .success { return close() }
    guard outcome.isFailure else { return position = .open(until: now) }
    pause = min(pause * 2, CircuitLimits.longestPause)
    open(now: now)
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
    window.record(failed: outcome.isFailure, now: now)
    if mayOpen, consecutive >= CircuitLimits.consecutive || window.hasFailedTooOften { open(now: now) }
  }

  private mutating func open(now: Duration) {
    if isClosed { opened = now }
    epoch += 1
    position = .open(until: now + pause)
  }

  private mutating func close() {
    epoch += 1
    (position, window, consecutive, lastFailure) = (.closed, FailureWindow(), 0, nil)
    (pause, isLearned) = (CircuitLimits.firstPause, false)
  }
}

/// The limits of a ``CircuitBreaker``: name, default, unit and reason.
enum CircuitLimits {
  /// The failures in a row that open the breaker: 5. A healthy service has fewer.
  static let consecutive = 5
  /// The fewest attempts in the window that make its failure ratio meaningful: 20.
  static let leastAttempts = 20
  /// The failure ratio in the window that opens the breaker, in percent: 50.
  static let failurePercent = 50
  /// The time for which an attempt counts: 10 s.
  static let window: Duration = .seconds(10)
  /// The pause between the opening and the first probe: 500 ms.
  static let firstPause: Duration = .milliseconds(500)
  /// The longest pause between two probes: 2 s. So an upstream that has recovered, and connects, is in use within 5 s.
  static let longestPause: Duration = .seconds(2)
  /// The time after which another probe may pass: 10 s. The caller of a probe may be gone without recording an outcome.
  static let probeTime: Duration = .seconds(10)
}

/// The evidence of an attempt about the health of the upstream.
public enum CircuitOutcome: Sendable, Equatable {
  /// The upstream responded with a status below 500, including 429 and 401.
  case success
  /// The attempt failed: 502, 503, 504, timeout, or unreachable upstream.
  case failure
  /// Only this resource failed: another 5xx, or a response whose header section is too large. No evidence about others.
  case resourceFailure
  /// The connection broke. It may have carried a hundred other requests, which are not further evidence.
  case broken
  /// No evidence: this side gave up the attempt.
  case neutral

  var isFailure: Bool { self != .success && self != .neutral }

  /// Creates the outcome of a response.
  public init(_ status: HTTPResponse.Status) {
    self =
      switch status.code {
      case ..<500: .success
      case 502, 503, 504: .failure
      default: .resourceFailure
      }
  }

  /// Creates the outcome of a failed exchange.
  public init(_ error: UpstreamError) {
    switch error.cause {
    case .cancelled, .connectionLimitReached, .proxyInternalError: self = .neutral
    case .connectionTerminated, .protocolError, .tlsProtocolError, .tlsAlertReceived, .responseIncomplete:
      self = .broken
    case .responseHeaderSectionSize: self = .resourceFailure
    case .dnsError, .dnsTimeout, .destinationUnavailable, .destinationIPUnroutable, .connectionRefused,
      .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .tlsCertificateError, .responseTimeout:
      self = .failure
    }
  }
}

/// The permission to send a request upstream. The outcome is recorded with it.
struct CircuitPass: Sendable, Equatable {
  let isProbe: Bool
  /// Whether the request is a second opinion, from a caller that did not cause the failures.
  var isOpinion = false
  /// The closed period or the probe of this pass.
  let epoch: UInt64
  let began: Duration
}

/// The attempts and failures of the last seconds, in ten slots that expire one by one.
struct FailureWindow: Sendable {
  private static let slots = 10
  private var all = RollingCounts(slots: slots)
  private var failed = RollingCounts(slots: slots)

  var attempts: Int { all.sum(from: 0, through: all.newest) }
  var failures: Int { failed.sum(from: all.kept.lowerBound, through: all.newest) }

  var hasFailedTooOften: Bool {
    attempts >= CircuitLimits.leastAttempts && failures * 100 >= attempts * CircuitLimits.failurePercent
  }

  mutating func record(failed isFailed: Bool, now: Duration) {
    // A clock that went back counts for the latest slot.
    let present = max(Int(now / (CircuitLimits.window / Self.slots)), all.newest)
    all.add(in: present)
    if isFailed { failed.add(in: present) }
  }
}

/// Requests that pass an open circuit because their callers have no failures. Otherwise one caller could take every probe.
struct SecondOpinions: Sendable {
  /// The most second opinions in one period: the concurrent requests of one page.
  static let most = 32
  private var began = Duration.zero
  /// The number of opinions of each client in the period.
  private var given: [UInt64: Int] = [:]
  private var total = 0
  /// The number of replicas that share the opinions of a period. Each may give at least one.
  var replicas = 1

  /// Returns whether a client with `allowed` opinions in a period has one left.
  func isFree(for client: UInt64, allowed: Int, now: Duration) -> Bool {
    guard now - began < CircuitLimits.firstPause else { return allowed > 0 }
    let most = max(Self.most / replicas, 1)
    return given[client, default: 0] < min(allowed, most) && total < most
  }

  /// Counts one opinion of a client.
  mutating func take(for client: UInt64, now: Duration) {
    if now - began >= CircuitLimits.firstPause { (began, given, total) = (now, [:], 0) }
    given[client, default: 0] += 1
    total += 1
  }
}

/// The numbers of events in slots of time, of which only the newest are kept. Slots are numbered from 0.
package struct RollingCounts: Sendable {
  private var counts: [Int32]
  private(set) var newest = 0

  package init(slots: Int) { counts = [Int32](repeating: 0, count: slots) }

  var kept: ClosedRange<Int> { max(newest - counts.count + 1, 0)...newest }

  subscript(slot: Int) -> Int { kept.contains(slot) ? Int(counts[slot % counts.count]) : 0 }

  /// A later slot than the newest replaces the oldest ones; one that is not kept any more stays forgotten.
  package mutating func add(_ change: Int32 = 1, in slot: Int) {
    if slot > newest {
      for stale in max(newest + 1, slot - counts.count + 1)...slot { counts[stale % counts.count] = 0 }
      newest = slot
    }
    if kept.contains(slot) { counts[slot % counts.count] &+= change }
  }

  package func sum(from first: Int, through last: Int) -> Int {
    var sum = 0
    for slot in stride(from: max(first, kept.lowerBound), through: min(last, newest), by: 1) {
      sum += Int(counts[slot % counts.count])
    }
    return sum
  }
}
