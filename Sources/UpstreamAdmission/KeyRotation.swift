/// The rotation from the active signing key to the next one: which of them signs, and when the next proof is due.
///
/// The next key signs only after Apple Music has accepted a token of it, and not before a time that the operator may set. If
/// Apple Music refuses it later, the active key signs again, and the proofs go on. A value without a clock, whose owner calls
/// ``step(now:wall:)`` every few seconds and does what it returns.
package struct KeyRotation: Sendable, Equatable {
  package enum Step: Sendable, Equatable {
    /// Test whether Apple Music accepts a token of the next key, and report the result with ``proved(_:now:wall:)``.
    case prove
    /// Let the next key sign.
    case promote
    case wait
  }

  /// The result of a proof.
  package enum Change: Sendable, Equatable {
    /// Apple Music accepts the next key, which does not sign yet.
    case accepted
    /// Apple Music accepts the key that signs, so the suspicion was wrong.
    case confirmed
    /// Apple Music refuses the next key. As below, the next proof follows after `pause`.
    case refused(pause: Duration)
    /// Apple Music refuses the key that signs, so the active key must sign again.
    case fellBack(pause: Duration)
    /// Apple Music gave no verdict, for example because it cannot be reached.
    case undecided(pause: Duration)
  }

  /// The pause after the first proof that was not accepted: 10 s. Apple's servers may learn of a new key with a delay.
  package static let firstPause = Duration.seconds(10)
  /// The longest pause between proofs: 1 h. An operator who has corrected the mistake can reload.
  static let longestPause = Duration.seconds(3600)
  /// The time for which an accepted proof dispels every suspicion: 1 min. A 401 may persist for another reason.
  static let trust = Duration.seconds(60)
  /// The age in seconds at which a proof no longer counts for a promotion: 1 h. The operator may have revoked the key.
  static let proofLifetime = 3600

  /// The state of the next key.
  package private(set) var state = SigningKeyState.unproved
  /// The time of the last accepted proof in seconds since 1970.
  package private(set) var lastProof: Int?
  /// The time before which the next key does not sign, in seconds since 1970. Nil if it may sign at once.
  package private(set) var notBefore: Int?
  /// The number of proofs that were due and not accepted, since the rotation began.
  package private(set) var failures = 0
  /// The time of the next proof on the monotonic clock.
  private var proofDue: Duration?
  private var isProving = false
  /// Whether the next proof is one for a reload, before its time.
  private var isEarly = false
  /// The time on the monotonic clock before which a suspicion causes no proof.
  private var trustedUntil = Duration.zero

  /// Begins with a proof.
  package init(notBefore: Int? = nil, now: Duration) {
    self.notBefore = notBefore
    proofDue = now
  }

  /// Returns the next action of the owner.
  ///
  /// - Parameters:
  ///   - now: The time on the monotonic clock.
  ///   - wall: The time in seconds since 1970.
  package mutating func step(now: Duration, wall: Int) -> Step {
    guard !isProving else { return .wait }
    if let proofDue, now >= proofDue {
      isProving = true
      return .prove
    }
    guard state == .proved, wall >= notBefore ?? wall, let lastProof else { return .wait }
    // After a clock was set back, the proof seems to be one of the future, and is repeated too.
    guard (0..<Self.proofLifetime).contains(wall - lastProof) else {
      isProving = true
      return .prove
    }
    state = .signing
    return .promote
  }

  /// Records the result of a proof.
  package mutating func proved(_ verdict: TokenVerdict, now: Duration, wall: Int) -> Change {
    isProving = false
    defer { isEarly = false }
    switch verdict {
    case .accepted:
      proofDue = nil
      lastProof = wall
      guard state != .signing else {
        trustedUntil = now + Self.trust
        return .confirmed
      }
      state = .proved
      return .accepted
    case .refused:
      let wasSigning = state == .signing
      state = .refused
      let pause = retry(now: now)
      return wasSigning ? .fellBack(pause: pause) : .refused(pause: pause)
    case .unknown, .abandoned: return .undecided(pause: retry(now: now))
    }
  }

  /// Requests another proof of the next key if it signs, because Apple Music has refused a token.
  package mutating func suspect(now: Duration) {
    guard state == .signing, proofDue == nil, now >= trustedUntil else { return }
    proofDue = now
  }

  /// Adopts the settings of a reload with the same keys. A key without an accepted proof is proved at once, because the
  /// operator may have corrected the mistake. If it is refused again, the pause is as long as before.
  package mutating func reloaded(notBefore: Int?, now: Duration) {
    self.notBefore = notBefore
    guard !isProving, state == .unproved || state == .refused else { return }
    proofDue = now
    isEarly = failures > 0
  }

  /// Plans the next proof. The pauses double, unless the last proof was an early one.
  private mutating func retry(now: Duration) -> Duration {
    if !isEarly { failures += 1 }
    let pause = min(Self.firstPause * (1 << min(failures - 1, 16)), Self.longestPause)
    proofDue = now + pause
    return pause
  }
}

package enum SigningKeyState: String, Sendable, CaseIterable {
  /// Callers get its tokens.
  case signing
  /// The active key while the next key signs.
  case replaced
  /// The next key before its first proof, and without an upstream for good.
  case unproved
  /// The next key after its proof, until `notBefore`.
  case proved
  /// The next key after Apple Music has refused a token of it.
  case refused
  case retired
}
