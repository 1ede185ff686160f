import HTTPTypes

/// A developer token for the upstream. It bears no origin, and no caller ever sees it.
public struct ProxyToken: Sendable {
  /// In compact form.
  public let text: String
  /// The field that it is sent in, made once for all requests.
  let credential: HTTPField
  /// When to make another one, in seconds since the epoch.
  public let refreshAt: Int
  /// Which one it is, for the 401 that may come.
  var version: TokenVersion?

  /// A token that is good until well after `refreshAt`.
  public init(text: String, refreshAt: Int) {
    self.text = text
    credential = HeaderPolicy.credential(text)
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
  /// The token to send with, made if there is none, it is half used up, or another is due after a 401. Nil if none can be
  /// made.
  func currentToken() -> ProxyToken? {
    let now = clock.now.wall
    let (token, version) = withState { state -> (ProxyToken?, TokenVersion) in
      let present = state.token
      let isCurrent = present?.version == state.remint.current
      if let present, isCurrent, now < present.refreshAt { return (present, state.remint.current) }
      // Else somebody has begun another version: whoever needs it before it is there makes one of its own.
      if present == nil || isCurrent {
        _ = state.remint.renewed(hasNewKey: state.hasNewKey)
        state.hasNewKey = false
      }
      return (nil, state.remint.current)
    }
    return token ?? mintToken(now: now, version: version)
  }

  /// Makes a token of a version.
  func mintToken(now: Int, version: TokenVersion) -> ProxyToken? {
    let (source, serial) = withState { ($0.tokens, $0.tokensSerial) }
    guard let source else { return nil }
    do {
      var token = try source.mint(now: now)
      token.version = version
      let made = token
      let isOfPresentKey = withState { state in
        guard state.tokensSerial == serial else { return false }
        state.counts.tokensMinted += 1
        if state.token?.version.map({ $0 <= version }) ?? true { state.token = made }
        return true
      }
      // The key has changed meanwhile.
      return isOfPresentKey ? made : currentToken()
    } catch {
      observer.noticed(.tokenFailed("\(error)"))
      // One that is half used up is better than none.
      return withState { $0.token }
    }
  }
}
