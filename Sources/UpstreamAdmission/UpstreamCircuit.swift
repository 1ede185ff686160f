import HTTPTypes

/// Stops asking an upstream that keeps failing, or one resource of it, and finds out with single requests whether it has
/// come back.
///
/// Every failure counts against the resource that was asked for, which is given up alone if it fails repeatedly. The
/// upstream as a whole is given up only when it fails repeatedly in a way that says something of the upstream (see
/// ``CircuitOutcome``), and when the evidence is broad: failures of several clients, or at several resources while no
/// other caller's request succeeds. So requests that one client makes fail cost another client nothing. Once it is given
/// up, a few requests of callers that the failures are not of pass all the same (``SecondOpinions``): the first that
/// succeeds closes the circuit.
///
/// A value without a lock and a clock.
public struct UpstreamCircuit: Sendable {
  /// Whether a request may go.
  public enum Admission: Sendable, Equatable {
    /// It may: record what came of it.
    case pass(Pass)
    /// It may not.
    case refused(Refusal)
  }

  /// Leave to ask. What came of it is reported with it.
  public struct Pass: Sendable, Equatable {
    let subject: CircuitSubject
    let upstream: CircuitPass
    /// Nil if nothing is known against the resource.
    let resource: CircuitPass?

    /// Whether it is the one request that finds out whether the upstream has come back.
    public var isProbe: Bool { upstream.isProbe }
  }

  /// What is not asked for now, and when to come back.
  public struct Refusal: Sendable, Equatable {
    /// When it is worth coming back.
    public let retryAfter: Duration
    /// Whether it is this resource alone, rather than the upstream.
    public let isOfResource: Bool
  }

  private let limits: CircuitLimits
  private var upstream: CircuitBreaker
  private var resources: ResourceCircuits
  private var evidence: FailureEvidence
  private var opinions: SecondOpinions

  /// A circuit that lets everything pass.
  public init(_ limits: CircuitLimits = CircuitLimits()) {
    self.limits = limits
    upstream = CircuitBreaker(limits)
    resources = ResourceCircuits(limits)
    evidence = FailureEvidence(window: limits.window)
    opinions = SecondOpinions(period: limits.firstPause)
  }

  /// Whether the circuit of the whole upstream lets requests pass.
  public var isClosed: Bool { upstream.isClosed }

  /// Why a request may not go; nil if it may. Changes nothing, unlike `admit`.
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

  /// Asks whether a request may go. A resource that is given up does not find out whether the upstream has come back.
  public mutating func admit(_ subject: CircuitSubject, now: Duration) -> Admission {
    if let refusal = refusal(for: subject, now: now) { return .refused(refusal) }
    let pass: CircuitPass
    switch upstream.admit(now: now) {
    case .pass(let granted): pass = granted
    case .open:
      // What is not refused above may give a second opinion.
      opinions.take(for: subject.client, now: now)
      pass = CircuitPass(isProbe: false, isOpinion: true, epoch: 0, began: now)
    }
    return .pass(Pass(subject: subject, upstream: pass, resource: resources.admit(subject.resource, now: now)))
  }

  /// Reports what came of a request that passed.
  public mutating func record(_ outcome: CircuitOutcome, of pass: Pass, now: Duration) {
    resources.record(outcome, at: pass.subject.resource, of: pass.resource, began: pass.upstream.began, now: now)
    switch outcome {
    case .failure, .broken: evidence.failed(pass.subject, now: now)
    case .success: evidence.succeeded(pass.subject, now: now)
    case .resourceFailure, .neutral: break
    }
    let wasClosed = upstream.isClosed
    let saysOfUpstream = outcome == .resourceFailure ? .neutral : outcome
    if pass.upstream.isOpinion {
      if outcome == .success { upstream.succeeded(pass.upstream) }
    } else {
      upstream.record(saysOfUpstream, of: pass.upstream, mayOpen: evidence.isBroad(now: now), now: now)
    }
    if !wasClosed, upstream.isClosed { evidence.forgetFailures() }
  }
}

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

/// What a request asks for, and for whom, as hashes that no caller can foresee: the hasher is seeded in each process.
public struct CircuitSubject: Sendable, Equatable {
  /// The client of the operator's list.
  let client: UInt64
  /// One of its callers.
  let caller: UInt64
  /// What is asked for. Two requests with the same cannot but get the same from a healthy upstream.
  let resource: UInt64

  /// A subject by its hashes.
  package init(client: UInt64, caller: UInt64, resource: UInt64) {
    (self.client, self.caller, self.resource) = (client, caller, resource)
  }
}

/// The recent failures by caller and resource, and the callers that succeeded recently. They show whether the upstream
/// causes the failures, or one caller does.
struct FailureEvidence: Sendable {
  /// The most failures that are remembered, each for another pair of caller and resource.
  private static let mostFailures = 16

  /// At so many resources one client's requests have to fail to say something of the upstream.
  private static let leastResources = 3

  private let window: Duration
  /// In the order in which they happened.
  private var failures: [(subject: CircuitSubject, time: Duration)] = []
  /// The last success of each of the two callers that succeeded last.
  private var successes: [(caller: UInt64, time: Duration)] = []

  init(window: Duration) {
    self.window = window
  }

  /// A request failed in a way that says something of the upstream.
  mutating func failed(_ subject: CircuitSubject, now: Duration) {
    failures.removeAll { $0.subject == subject || now - $0.time > window }
    if failures.count >= Self.mostFailures { failures.removeFirst() }
    failures.append((subject, now))
  }

  /// A request succeeded.
  mutating func succeeded(_ subject: CircuitSubject, now: Duration) {
    successes.removeAll { $0.caller == subject.caller }
    if successes.count > 1 { successes.removeFirst() }
    successes.append((subject.caller, now))
  }

  /// Forgets the failures: the upstream answers. Whose requests succeed is remembered, for their sake it stays in use.
  mutating func forgetFailures() {
    failures = []
  }

  /// How many second opinions clients may give in a while; see ``SecondOpinions``. None of a caller that has failed at
  /// several resources. The more callers of a client fail, the fewer; one if several clients fail.
  func opinions(of subject: CircuitSubject, now: Duration) -> Int {
    let recent = failures.filter { now - $0.time <= window }.map(\.subject)
    let own = Set(recent.filter { $0.caller == subject.caller }.map(\.resource))
    guard own.count < 2 else { return 0 }
    if Set(recent.map(\.client)).count > 1 { return 1 }
    let callers = Set(recent.filter { $0.client == subject.client }.map(\.caller))
    return SecondOpinions.most / (1 + callers.count)
  }

  /// Whether the failures are evidence about the upstream: several clients' at several resources, or at three or more
  /// resources while no other caller's request succeeded.
  func isBroad(now: Duration) -> Bool {
    let recent = failures.filter { now - $0.time <= window }
    let resources = Set(recent.map(\.subject.resource))
    guard resources.count > 1 else { return false }
    if Set(recent.map(\.subject.client)).count > 1 { return true }
    guard resources.count >= Self.leastResources else { return false }
    let callers = Set(recent.map(\.subject.caller))
    return successes.allSatisfy { now - $0.time > window || callers.contains($0.caller) }
  }
}
