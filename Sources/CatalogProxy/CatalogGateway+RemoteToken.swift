import Dispatch
import HTTPCache
import UpstreamAdmission

// Tokens of a remote signer, which may take seconds. They are signed on a queue: ahead of time, so that requests rarely wait
// for one, and those that do wait in a task.
extension CatalogGateway {
  var hasRemoteTokens: Bool { withAdmission { $0.tokenSource?.isRemote ?? false } }

  /// Signs another token in the background if it is due, with a remote signer. The present one stays in use until then.
  public func renewRemoteToken() {
    guard hasRemoteTokens, isTokenDue else { return }
    signing.async { if self.isTokenDue { _ = self.mintRemotely() } }
  }

  /// Returns the token to send, as ``currentToken()`` does, and waits for the remote signer if that is missing.
  func remoteToken() async -> ProxyToken? {
    if let token = usableToken(now: clock.now) { return token }
    return await withCheckedContinuation { continuation in
      signing.async { continuation.resume(returning: self.usableToken(now: self.clock.now) ?? self.mintRemotely()) }
    }
  }

  private var isTokenDue: Bool {
    let now = clock.now
    return usableToken(now: now).map { $0.renewAt.map { $0 <= now.wall } ?? false } ?? true
  }

  /// Mints a token. If that fails, returns the last one, or nil.
  private func mintRemotely() -> ProxyToken? {
    let now = clock.now
    let (source, serial) = withAdmission { ($0.tokenSource, $0.tokenSourceVersion) }
    // A reload has brought another key.
    guard let source, source.isRemote else { return currentToken() }
    let made = Result { try source.mint(now: now.wall) }
    if case .failure(let error) = made { observer.noticed(.tokenFailed("\(error)")) }
    return withAdmission { admission in
      // The key has changed meanwhile.
      guard admission.tokenSourceVersion == serial else { return admission.unexpiredToken(now: now) }
      switch made {
      case .success(let made):
        if admission.token == nil || admission.token?.version == admission.tokenRefresh.current {
          let isFromAnotherClock = admission.token?.isFromAnotherClock(at: now) ?? false
          _ = admission.tokenRefresh.renewed(isUnjudged: admission.hasNewKey || isFromAnotherClock)
          admission.hasNewKey = false
        }
        admission.counts.tokensMinted += 1
        admission.token = made.numbered(admission.tokenRefresh.current, at: now)
      case .failure:
        // After a 401 the last token is the best one still, and no request waits again.
        if let token = admission.token, token.version != admission.tokenRefresh.current, let time = token.madeAt {
          admission.token = token.numbered(admission.tokenRefresh.current, at: time)
        }
      }
      return admission.unexpiredToken(now: now)
    }
  }
}
