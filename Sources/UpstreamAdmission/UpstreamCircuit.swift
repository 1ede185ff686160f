import DequeModule
import HTTPTypes

/// Stops requests to an upstream or a resource that keeps failing. Single ones probe whether it has recovered.
///
/// Every failure counts against the requested resource, which is stopped alone if it fails repeatedly. The whole upstream is
/// stopped only when repeated failures are evidence about it (``CircuitOutcome``), and the evidence is broad: failures of
/// several clients while no other client's request succeeds, or at several resources while no other caller's request
/// succeeds. So clients that cause failures do not affect others. While the upstream is stopped, a few requests of callers
/// without failures still pass (``SecondOpinions``). The first one that succeeds closes the circuit.
public struct UpstreamCircuit: Sendable {
  /// The answer to whether a request may be sent.
  public enum Clearance: Sendable, Equatable {
    /// The request may be sent. Its outcome must be recorded.
    case pass(Pass)
    case refused(Refusal)
  }

  /// The permission to send a request. Its outcome is recorded with it.
  public struct Pass: Sendable, Equatable {
    let subject: CircuitSubject
    let upstream: CircuitPass
    /// Nil if the resource has no recorded failure.
    let resource: CircuitPass?

    /// Whether the request is the probe that checks whether the upstream has recovered.
    public var isProbe: Bool { upstream.isProbe }
  }

  /// The refusal of a request.
  public struct Refusal: Sendable, Equatable {
    /// The time until a retry makes sense.
    public let retryAfter: Duration
    /// Whether the refusal is about this resource alone.
    public let isOfResource: Bool
  }

  var upstream = CircuitBreaker()
  private var resources = ResourceCircuits()
  var evidence = FailureEvidence()
  var opinions = SecondOpinions()
  /// When the upstream last responded to this replica without an error.
  private var lastSuccess: Duration?
  /// The replicas whose circuits are open, and when each has last said so.
  private var openElsewhere: [UInt64: Duration] = [:]
  /// Until when other replicas' failures do not open this circuit.
  private var ignoresNewsUntil = Duration.zero

  /// Creates a closed circuit.
  public init() {}

  /// Whether the circuit of the whole upstream is closed.
  public var isClosed: Bool { upstream.isClosed }

  /// Returns why a request must not be sent, or nil if it may. Unlike `admit`, changes no state.
  public func refusal(for subject: CircuitSubject, now: Duration) -> Refusal? {
    if let pause = resources.refusal(for: subject.resource, now: now) {
      return Refusal(retryAfter: pause, isOfResource: true)
    }
    guard let pause = upstream.refusal(now: now), !mayGiveOpinion(subject, now: now) else { return nil }
    return Refusal(retryAfter: pause, isOfResource: false)
  }

  private func mayGiveOpinion(_ subject: CircuitSubject, now: Duration) -> Bool {
    opinions.isFree(for: subject.client, allowed: evidence.opinions(of: subject, now: now), now: now)
  }

  /// Decides whether a request may be sent. A request for a stopped resource never probes the upstream.
  public mutating func admit(_ subject: CircuitSubject, now: Duration) -> Clearance {
    if let refusal = refusal(for: subject, now: now) { return .refused(refusal) }
    let pass: CircuitPass
    if let granted = upstream.admit(now: now) {
      pass = granted
    } else {
      // A request that was not refused above may give a second opinion.
      opinions.take(for: subject.client, now: now)
      pass = CircuitPass(isProbe: false, isOpinion: true, epoch: 0, began: now)
    }
    return .pass(Pass(subject: subject, upstream: pass, resource: resources.admit(subject.resource, now: now)))
  }

  /// Records the outcome of a request that passed.
  public mutating func record(_ outcome: CircuitOutcome, of pass: Pass, now: Duration) {
    resources.record(outcome, at: pass.subject.resource, of: pass.resource, began: pass.upstream.began, now: now)
    switch outcome {
    case .failure, .broken: evidence.failed(pass.subject, now: now)
    case .success: evidence.succeeded(pass.subject, began: pass.upstream.began, now: now)
    case .resourceFailure, .neutral: break
    }
    let (wasClosed, wasLearned) = (upstream.isClosed, upstream.isLearned)
    let saysOfUpstream = outcome == .resourceFailure ? .neutral : outcome
    if pass.upstream.isOpinion {
      if outcome == .success { upstream.succeeded(pass.upstream) }
    } else {
      upstream.record(saysOfUpstream, of: pass.upstream, mayOpen: evidence.isBroad(now: now), now: now)
    }
    if !wasClosed, upstream.isClosed { evidence.forgetFailures() }
    guard outcome == .success else { return }
    lastSuccess = now
    // The others' news was wrong for this replica.
    if wasLearned, upstream.isClosed { ignoresNewsUntil = now + Self.doubt }
  }
}

/// News about the circuit of one replica for the others.
public enum CircuitNews: Sendable, Equatable {
  /// The circuit has opened, or a probe has failed. The value is the pause before the next probe.
  case open(pause: Duration)
  /// The upstream responds again.
  case closed

  /// The news as three bytes: a kind, and the pause in milliseconds.
  public var bytes: [UInt8] {
    guard case .open(let pause) = self else { return [0, 0, 0] }
    let length = UInt16(clamping: Int(pause.inSeconds * 1000))
    return [1, UInt8(truncatingIfNeeded: length >> 8), UInt8(truncatingIfNeeded: length)]
  }

  /// Reads news of another replica. Returns nil for anything else.
  public init?(_ bytes: ArraySlice<UInt8>) {
    let bytes = Array(bytes)
    guard bytes.count == 3, bytes[0] < 2 else { return nil }
    self = bytes[0] == 1 ? .open(pause: .milliseconds(Int(bytes[1]) << 8 | Int(bytes[2]))) : .closed
  }
}

// The circuit in a group of replicas. Only the circuit of the whole upstream is shared, not those of resources.
extension UpstreamCircuit {
  /// The time within which this replica's success outweighs another's failures: 1 s. That one may have no way there.
  static let contradiction = Duration.seconds(1)
  /// The time for which the others' failures do not count after the upstream has responded to this replica, whose
  /// circuit was open because of them: 1 min. So a replica without a way costs each other one a pause a minute at most.
  static let doubt = Duration.seconds(60)
  /// The time for which news of an open circuit counts: 15 s. While a replica has requests, it repeats them more often.
  private static let lifetime = Duration.seconds(15)
  /// The most replicas whose news counts: 1,024.
  private static let mostReplicas = 1024
  /// The time over which replicas spread their probes after the one that knows best: 500 ms for each, 2 s at most.
  private static let spread = (each: Duration.milliseconds(500), most: Duration.seconds(2))

  /// What the others should know now.
  public var news: CircuitNews { isClosed ? .closed : .open(pause: upstream.pause) }

  /// Sets the number of replicas. They share the second opinions.
  public mutating func use(replicas: Int) { opinions.replicas = max(replicas, 1) }

  /// Takes another replica's news.
  ///
  /// The circuit opens if at least two others, and half of them, say so. A single one may have lost its way there.
  ///
  /// - Parameter spread: A number from 0 to 1 that differs among replicas and news, so that one of them probes first.
  public mutating func learn(_ news: CircuitNews, of replica: UInt64, spread: Double, now: Duration) {
    switch news {
    case .open(let pause):
      openElsewhere = openElsewhere.filter { now - $0.value <= Self.lifetime }
      guard openElsewhere[replica] != nil || openElsewhere.count < Self.mostReplicas else { return }
      openElsewhere[replica] = now
      if let lastSuccess, now - lastSuccess <= Self.contradiction || now < ignoresNewsUntil { return }
      guard openElsewhere.count >= 2, 2 * openElsewhere.count >= opinions.replicas - 1 else { return }
      let pause = min(max(pause, CircuitLimits.firstPause), CircuitLimits.longestPause)
      let most = min(Self.spread.each * max(opinions.replicas - 1, 1), Self.spread.most)
      upstream.learn(pause: pause + Duration(inSeconds: most.inSeconds * min(max(spread, 0.1), 1)), now: now)
    case .closed:
      openElsewhere[replica] = nil
      let wasClosed = isClosed
      upstream.learnRecovery(now: now)
      if !wasClosed, isClosed { evidence.forgetFailures() }
    }
  }
}

/// The resources that failed recently, each with its own circuit breaker.
///
/// A resource is stored from its first failure until its next success. The one with the oldest last failure leaves first.
struct ResourceCircuits: Sendable {
  /// The most stored resources: 256, about 100 kB. If a client makes more fail at once, only the oldest are forgotten.
  static let most = 256

  private var entries: [UInt64: (breaker: CircuitBreaker, lastFailure: Duration)] = [:]

  var count: Int { entries.count }

  /// Returns how long the resource must not be requested, or nil if it may be.
  func refusal(for resource: UInt64, now: Duration) -> Duration? {
    entries.isEmpty ? nil : entries[resource]?.breaker.refusal(now: now)
  }

  /// Returns nil if the resource is not stored.
  mutating func admit(_ resource: UInt64, now: Duration) -> CircuitPass? {
    entries.isEmpty ? nil : entries[resource]?.breaker.admit(now: now)
  }

  mutating func record(
    _ outcome: CircuitOutcome, at resource: UInt64, of pass: CircuitPass?, began: Duration, now: Duration
  ) {
    guard outcome.isFailure || !entries.isEmpty else { return }
    if outcome.isFailure, entries[resource] == nil { insert(resource, now: now) }
    guard var entry = entries[resource] else { return }
    // The first failures were sent before any failure of the resource was recorded.
    entry.breaker.record(outcome, of: pass ?? CircuitPass(isProbe: false, epoch: 0, began: began), now: now)
    if outcome.isFailure { entry.lastFailure = now }
    entries[resource] = outcome == .success && entry.breaker.isClosed ? nil : entry
  }

  private mutating func insert(_ resource: UInt64, now: Duration) {
    if entries.count >= Self.most, let oldest = entries.min(by: { $0.value.lastFailure < $1.value.lastFailure }) {
      entries[oldest.key] = nil
    }
    entries[resource] = (CircuitBreaker(), now)
  }
}

/// A request's client, caller and resource, as hashes with a seed of the process that no caller can predict.
public struct CircuitSubject: Sendable, Equatable {
  package let client: UInt64
  package let caller: UInt64
  /// A healthy upstream gives two requests for the same resource the same response.
  let resource: UInt64

  package init(client: UInt64, caller: UInt64, resource: UInt64) {
    (self.client, self.caller, self.resource) = (client, caller, resource)
  }
}

/// Recent failures, and who has succeeded recently: whether the upstream causes the failures, or single clients do.
struct FailureEvidence: Sendable {
  /// The most stored failures, each for a different pair of caller and resource.
  private static let mostFailures = 16
  /// The fewest resources at which one client's requests must fail to be evidence about the upstream.
  private static let leastResources = 3
  /// The most clients of which successes and failures are known: 16. Those without news for the longest time are forgotten.
  private static let mostClients = 16
  /// The time for which a success counts against earlier failures: 1 min. Later, it may fail for all that are left.
  private static let contradiction = Duration.seconds(60)

  private let window = CircuitLimits.window
  // All in order of time.
  private var failures: Deque<(subject: CircuitSubject, time: Duration)> = []
  /// The last success of each of the two callers that succeeded last.
  private var successes: Deque<(caller: UInt64, time: Duration)> = []
  /// The last success of each client, and when its request was sent.
  private var served: Deque<(client: UInt64, began: Duration, time: Duration)> = []
  /// The clients whose requests fail, also while others' do not: when the first since a success failed, and the last.
  private var failing: Deque<(client: UInt64, since: Duration, last: Duration)> = []

  mutating func failed(_ subject: CircuitSubject, now: Duration) {
    failures.append((subject, now), most: Self.mostFailures) { $0.subject == subject || now - $0.time > window }
    let known = failing.first { $0.client == subject.client && now - $0.last <= window }
    failing.append((subject.client, known?.since ?? now, now), most: Self.mostClients) { $0.client == subject.client }
  }

  /// Records a success of a request that was sent at `began`.
  mutating func succeeded(_ subject: CircuitSubject, began: Duration, now: Duration) {
    successes.append((subject.caller, now), most: 2) { $0.caller == subject.caller }
    served.append((subject.client, began, now), most: Self.mostClients) { $0.client == subject.client }
    if !failing.isEmpty { failing.removeAll { $0.client == subject.client } }
  }

  /// Discards the failures when the upstream responds again. The successes keep it in use.
  mutating func forgetFailures() { failures = [] }

  /// Returns how many second opinions a client may give in a period (see ``SecondOpinions``): none for a caller that
  /// failed at several resources. If several clients fail, each of them may give one, and a client without failures may
  /// give all. If only one client fails, it may give fewer the more of its callers fail.
  func opinions(of subject: CircuitSubject, now: Duration) -> Int {
    let recent = failures.filter { now - $0.time <= window }.map(\.subject)
    let own = Set(recent.filter { $0.caller == subject.caller }.map(\.resource))
    guard own.count < 2 else { return 0 }
    if Set(recent.map(\.client)).count > 1 {
      let hasFailed = failing.contains { $0.client == subject.client && now - $0.last <= window }
      return hasFailed ? 1 : SecondOpinions.most
    }
    let callers = Set(recent.filter { $0.client == subject.client }.map(\.caller))
    return SecondOpinions.most / (1 + callers.count)
  }

  /// Whether the failures are evidence about the upstream: several clients failed at several resources, and no other
  /// has succeeded since, or there were failures at three or more resources while no other caller's request succeeded.
  func isBroad(now: Duration) -> Bool {
    guard failures.count > 1 else { return false }
    let recent = failures.filter { now - $0.time <= window }
    let resources = Set(recent.map(\.subject.resource))
    guard resources.count > 1 else { return false }
    let general = recent.filter { !isContradicted($0.subject.client, now: now) }.map(\.subject)
    if Set(general.map(\.client)).count > 1, Set(general.map(\.resource)).count > 1 { return true }
    guard resources.count >= Self.leastResources else { return false }
    let callers = Set(recent.map(\.subject.caller))
    return successes.allSatisfy { now - $0.time > window || callers.contains($0.caller) }
  }

  /// Whether another client's request has succeeded that was sent after this client's requests began to fail. A success
  /// from before shows nothing: every outage begins after one.
  private func isContradicted(_ client: UInt64, now: Duration) -> Bool {
    guard let since = failing.first(where: { $0.client == client })?.since else { return false }
    return served.contains { $0.client != client && $0.began > since && now - $0.time <= Self.contradiction }
  }
}

extension Deque {
  /// Appends an element in place of others. If there are more than `most` then, the oldest leaves.
  fileprivate mutating func append(_ element: Element, most: Int, replacing isReplaced: (Element) -> Bool) {
    removeAll(where: isReplaced)
    if count >= most { removeFirst() }
    append(element)
  }
}
