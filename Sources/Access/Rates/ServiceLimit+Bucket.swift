extension ServiceLimit {
  /// What is left behind a taken token, or before one may be taken.
  init(_ policy: Policy, _ outcome: TokenBucket.Outcome, now: Int64) {
    self.policy = policy
    remaining = outcome.remaining
    let isLimited = outcome.wait > 0
    seconds = Self.seconds(
      isLimited ? outcome.wait : outcome.remaining == 0 ? outcome.nextWait : outcome.fullAt - now)
  }

  /// Nanoseconds in whole seconds, rounded up, at least 1.
  static func seconds(_ nanoseconds: Int64) -> Int {
    max(1, Int((nanoseconds - 1) / 1_000_000_000) + 1)
  }
}
