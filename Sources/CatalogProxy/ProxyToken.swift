/// A developer token for the upstream. It bears no origin, and no caller ever sees it.
public struct ProxyToken: Sendable {
  /// In compact form.
  public let text: String
  /// When to make another one, in seconds since the epoch.
  public let refreshAt: Int
  /// Which one it is, for the 401 that may come.
  var version: TokenVersion?

  /// A token that is good until well after `refreshAt`.
  public init(text: String, refreshAt: Int) {
    self.text = text
    self.refreshAt = refreshAt
  }
}

/// Makes developer tokens for the upstream.
public protocol TokenSource: Sendable {
  /// A token that nobody else has.
  ///
  /// - Parameter now: The time in seconds since the epoch.
  /// - Throws: A sentence.
  func mint(now: Int) throws -> ProxyToken
}

extension CatalogProxy {
  /// The token to send with, made if there is none or it is half used up. Nil if none can be made.
  func currentToken() -> ProxyToken? {
    let now = clock.now.wall
    if let token = withState({ $0.token }), now < token.refreshAt { return token }
    return mintToken(now: now)
  }

  /// Makes a token, whatever there is. A few may be made at once, by several loops: each is good.
  ///
  /// - Parameter version: The version that it is to be of, if that has been said.
  func mintToken(now: Int, version: TokenVersion? = nil) -> ProxyToken? {
    guard let tokens = withState({ $0.tokens }) else { return nil }
    do {
      var token = try tokens.mint(now: now)
      return withState { state in
        token.version = version ?? state.remint.renewed(hasNewKey: state.hasNewKey)
        state.hasNewKey = false
        state.token = token
        state.counts.tokensMinted += 1
        return token
      }
    } catch {
      observer.noticed(.tokenFailed("\(error)"))
      // One that is half used up is better than none.
      return withState { $0.token }
    }
  }
}
