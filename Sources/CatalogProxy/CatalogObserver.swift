public import HTTPMessages

/// Hears of what the operator should know. Called on an event loop: it must not block.
public protocol CatalogObserver: Sendable {
  /// Something happened.
  func noticed(_ notice: CatalogNotice)
}

/// Something about the upstream that the operator should know. There is no secret in it.
public enum CatalogNotice: Sendable {
  /// Apple refuses the developer token, and also a fresh one. A sentence says the likely reason.
  case tokenRejected(TokenRejection)
  /// Apple takes our tokens again.
  case tokenAccepted
  /// No developer token can be made; a sentence says why.
  case tokenFailed(String)
  /// The head of a response came, so long after the attempt began.
  case responded(after: Duration)
  /// An exchange failed; a sentence says how.
  case exchangeFailed(UpstreamError)
  /// The upstream answered 5xx.
  case upstreamStatus(Int)
  /// The upstream answered 429: the team's quota is used up for the moment.
  ///
  /// - Parameter rate: The estimated rate that the quota allows, in requests a second.
  case limited(rate: Double)
  /// The upstream has failed repeatedly, and is asked only now and then.
  case circuitOpened
  /// The upstream is back.
  case circuitClosed
}
