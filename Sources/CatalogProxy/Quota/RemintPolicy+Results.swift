extension TokenRefreshPolicy {
  /// What a 401 leads to that may be about our token.
  public enum Decision: Sendable, Equatable {
    /// Make a fresh token, which is of this version, and send the request once more.
    case mint(TokenVersion)
    /// Another request's 401 has led to a fresh token by now: send the request once more with that.
    case retryWithCurrent
    /// A fresh token does not help, or has just been tried.
    case exhausted
  }

  /// Whether a 401 is about the developer token.
  public enum Suspicion: Sendable, Equatable {
    /// Apple accepts the token: the 401 is about the request.
    case accepted
    /// Apple refuses the token.
    case refused
    /// `/v1/test` has been asked, and could not say.
    case unknown
    /// Ask `/v1/test` with the same token, and report with `tested`.
    case askTest
    /// Another request is asking: ask here again after this time.
    case wait(Duration)
  }

  /// What `/v1/test` says of a token.
  public enum Verdict: Sendable, Equatable {
    /// The token is good.
    case accepted
    /// 401.
    case refused
    /// Something else, or nothing.
    case unknown
    /// The request that asked was cancelled.
    case abandoned
  }
}
