extension RemintPolicy {
  /// What a 401 for our token leads to.
  public enum Decision: Sendable, Equatable {
    /// Make a fresh token, which is of this version, and send the request once more.
    case mint(TokenVersion)
    /// Another request's 401 has led to a fresh token by now: send the request once more with that.
    case retryWithCurrent
    /// A fresh token does not help, or has just been tried: tell the caller.
    case rejected
  }

  /// Whose a 401 under `/v1/me` is.
  public enum Suspicion: Sendable, Equatable {
    /// The user's: pass it through.
    case theirs
    /// Our token's: see `unauthorized`.
    case ours
    /// It cannot be told: ask `/v1/test` with the current token, report with `tested`, and ask here again.
    case askTest
    /// Another request is asking: ask here again after this time.
    case wait(Duration)
  }

  /// What `/v1/test` said.
  public enum TestOutcome: Sendable, Equatable {
    /// The token is good.
    case accepted
    /// 401.
    case refused
    /// Something else, or nothing.
    case inconclusive
  }
}
