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
