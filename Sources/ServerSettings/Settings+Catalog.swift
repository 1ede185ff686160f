import HTTPClient
package import HTTPMessages

extension Settings {
  /// The proxy to Apple Music. The settings below describe the properties.
  package struct Catalog: Sendable, Equatable {
    package struct Cache: Sendable, Equatable {
      package var maxBytes = 64 << 20
      package var lifetime = Duration.seconds(300)
      package var notFoundLifetime = Duration.seconds(60)
      package var staleWhileRevalidate = Duration.seconds(60)
      package var staleIfError = Duration.seconds(86_400)
    }

    package struct Timeouts: Sendable, Equatable {
      package var connect = Duration.seconds(5)
      package var firstByte = Duration.seconds(10)
      package var whole = Duration.seconds(30)
      package var staleAfter = Duration.milliseconds(500)
    }

    package var upstream = Origin.appleMusic
    package var caFile: String?
    package var me = false
    package var proxy: String?
    package var cache = Cache()
    package var timeouts = Timeouts()
    package var concurrency = 400
  }
}

extension Settings.Catalog: SettingsSection {
  static let place = SectionPlace(\.catalog)

  static let enabled = Setting(
    "catalog.enabled", .bool, default: true, fixed: .presence(of: \.catalog),
    "Whether the server serves paths below `/v1/`.")

  static let rows: [SectionRow<Self>] = [
    .own(enabled),
    row(
      "catalog.upstream", .origin, \.upstream,
      "Where the server sends requests; `http://` only to this machine, or with `--unsafe-plain-upstream`."),
    row(
      "catalog.caFile", .path, \.caFile, example: #""/etc/ssl/certs/ca-certificates.crt""#, isLive: true,
      "PEM, the CAs that the server trusts for the upstream. Default: the system's store."),
    row("catalog.me", .bool, \.me, "Whether the server forwards `/v1/me/…`, with the caller's `Music-User-Token`."),
    row(
      "catalog.proxy", .upstreamProxy, \.proxy, isSecret: true, example: #""http://proxy.example.com:3128""#,
      "`http://[user:password@]host:port` of a proxy that tunnels to the upstream. Default: `HTTPS_PROXY`, unless "
        + "`NO_PROXY` names the upstream."),
    row(
      "catalog.concurrency", .integer(1...10_000), \.concurrency,
      "The most requests at Apple at once, of all replicas that share a store. The server learns by itself how many "
        + "requests a second the quota allows."),
    row(
      "catalog.cache.maxBytes", .size(0...64 << 30), \.cache.maxBytes,
      "The memory that the cache may use; 0 turns it off."),
    row(
      "catalog.cache.lifetime", .duration(seconds: 0...86_400), \.cache.lifetime,
      "How long a response is fresh if Apple does not say."),
    row(
      "catalog.cache.notFoundLifetime", .duration(seconds: 0...86_400), \.cache.notFoundLifetime, "The same for a 404."),
    row(
      "catalog.cache.staleWhileRevalidate", .duration(seconds: 0...86_400), \.cache.staleWhileRevalidate,
      "How long after that the server still serves it while it fetches a new one."),
    row(
      "catalog.cache.staleIfError", .duration(seconds: 0...2_592_000), \.cache.staleIfError,
      "How long after that the server serves it if Apple cannot be reached, fails or has a 429."),
    row(
      "catalog.timeouts.connect", .duration(seconds: 1...60), \.timeouts.connect,
      "For a connection to Apple: name, address, TLS."),
    row(
      "catalog.timeouts.firstByte", .duration(seconds: 1...300), \.timeouts.firstByte,
      "From the request to the head of Apple's response."),
    row(
      "catalog.timeouts.whole", .duration(seconds: 1...600), \.timeouts.whole,
      "For the whole request, with retries and content. It ends a response over 1 MiB whose caller has not read it by "
        + "then."),
    row(
      "catalog.timeouts.staleAfter", .duration(milliseconds: 0...600_000), \.timeouts.staleAfter,
      "How long a caller waits for Apple when a usable stale response exists. Then the caller gets that one, and "
        + "the request to Apple continues."),
  ]

  init?(_ reader: inout SettingsReader, proxies: ProxyEnvironment, allowsPlainUpstream: Bool) {
    self.init()
    let isEnabled = reader.read(Self.enabled)
    guard read(&reader), isEnabled == true else { return nil }
    if !upstream.isSecure, !upstream.isLoopback, !allowsPlainUpstream {
      reader.reject(
        "catalog.upstream", "is not https, so the developer token would travel in clear",
        remedy: "write https://, or start with --unsafe-plain-upstream")
    }
    proxy = proxy ?? proxies.proxy(for: upstream)
  }
}

/// The values of `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case, as curl and most other programs use them.
package struct ProxyEnvironment: Sendable {
  private let environment: [String: String]

  package init(_ environment: [String: String]) { self.environment = environment }

  /// Returns the URL of the proxy for `upstream`, or nil. An upstream without TLS, for tests, has no proxy.
  package func proxy(for upstream: Origin) -> String? {
    guard upstream.isSecure, let proxy = variable("HTTPS_PROXY"),
      !UpstreamProxy.isExempt(
        upstream.hostToResolve, port: upstream.port ?? 443, noProxy: variable("NO_PROXY")?.value ?? "")
    else { return nil }
    return proxy.value
  }

  /// Rejects a proxy that the server would use for one of `origins`, and cannot.
  func check(for origins: [Origin], _ reader: inout SettingsReader) {
    let origins = Set(origins.filter { proxy(for: $0) != nil }).sorted()
    guard !origins.isEmpty, let proxy = variable("HTTPS_PROXY"), (try? UpstreamProxy(proxy.value)) == nil else {
      return
    }
    let users = list(origins.map(\.description), atMost: 4, of: "hosts")
    reader.reject(
      variable: proxy.name, "is not the URL of a proxy, and the server needs one for \(users)",
      remedy: "write one such as \"http://proxy.example.com:3128\", or NO_PROXY with the hosts that need none")
  }

  private func variable(_ name: String) -> (name: String, value: String)? {
    [name, name.lowercased()].lazy.compactMap { name in environment[name].map { (name, $0) } }.first
  }
}

extension SettingType where Value == Origin {
  static let origin = originText("write an origin such as \"https://app.example.com\"") { try Origin($0) }
}

extension SettingType where Value == String {
  /// The URL of a proxy for tunnels, with credentials if necessary.
  static let upstreamProxy = text(
    "the URL of a proxy", remedy: "write a URL such as \"http://proxy.example.com:3128\"", quote: nil
  ) { (try? UpstreamProxy($0)) == nil ? nil : $0 }
}
