import DeveloperToken
import HTTPClient

/// `HTTPS_PROXY` and `NO_PROXY`, as curl and most other programs honour them, in either case of letters.
struct ProxyEnvironment: Sendable {
  private let environment: [String: String]

  init(_ environment: [String: String]) {
    self.environment = environment
  }

  /// The proxy's URL that `upstream` is reached through; nil for none. A plain upstream, for tests, has none.
  func proxy(for upstream: Origin) -> String? {
    guard upstream.isSecure, let proxy = variable("HTTPS_PROXY"),
      !UpstreamProxy.isExempt(upstream.hostToResolve, port: upstream.port ?? 443, noProxy: variable("NO_PROXY") ?? "")
    else { return nil }
    return proxy
  }

  private func variable(_ name: String) -> String? {
    environment[name] ?? environment[name.lowercased()]
  }
}
