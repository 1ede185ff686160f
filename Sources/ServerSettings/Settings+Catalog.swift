import HTTPClient
package import HTTPMessages

extension Settings {
  /// The proxy to Apple Music. The settings below describe the properties.
  package struct Catalog: Sendable, Equatable {
    package struct Cache: Sendable, Equatable {
      package var maxBytes: Int
      package var lifetime: Duration
      package var notFoundLifetime: Duration
      package var staleWhileRevalidate: Duration
      package var staleIfError: Duration
    }

    package struct Timeouts: Sendable, Equatable {
      package var connect: Duration
      package var firstByte: Duration
      package var whole: Duration
      package var staleAfter: Duration
    }

    package var upstream: Origin
    /// Nil for the system's store.
    package var caFile: String?
    package var me: Bool
    /// Nil for a direct connection.
    package var proxy: String?
    package var cache: Cache
    package var timeouts: Timeouts
    package var concurrency: Int
  }
}

extension Settings.Catalog {
  static let enabled = Setting(
    "catalog.enabled", .bool, default: true, fixed: .presence(of: \.catalog),
    "Whether the server serves paths below `/v1/`.")
  static let upstream = Setting(
    "catalog.upstream", .origin, default: .appleMusic, fixed: .of(\.catalog, \.upstream),
    "Where the server sends requests; `http://` only to this machine, or with `--unsafe-plain-upstream`.")
  static let caFile = Setting(
    "catalog.caFile", .path, example: #""/etc/ssl/certs/ca-certificates.crt""#,
    "PEM, the CAs that the server trusts for the upstream. Default: the system's store.")
  static let me = Setting(
    "catalog.me", .bool, default: false, fixed: .of(\.catalog, \.me),
    "Whether the server forwards `/v1/me/…`, with the caller's `Music-User-Token`.")
  static let proxy = Setting(
    "catalog.proxy", .upstreamProxy, isSecret: true, example: #""http://proxy.example.com:3128""#,
    fixed: .of(\.catalog, \.proxy),
    "`http://[user:password@]host:port` of a proxy that tunnels to the upstream. Default: `HTTPS_PROXY`, unless "
      + "`NO_PROXY` names the upstream.")
  static let concurrency = Setting(
    "catalog.concurrency", .integer(1...10_000), default: 400, fixed: .of(\.catalog, \.concurrency),
    "The most requests at Apple at once, of all replicas that share a store. The server learns by itself how many "
      + "requests a second the quota allows.")

  static let known: [any SettingRow] =
    [enabled, upstream, caFile, me, proxy, concurrency] + Cache.known + Timeouts.known

  /// Reads the settings. Returns nil if the catalog is disabled, or if they are invalid.
  ///
  /// - Parameter proxies: The proxies of the environment.
  init?(_ reader: inout SettingsReader, proxies: ProxyEnvironment, allowsPlainUpstream: Bool) {
    let enabled = reader.read(Self.enabled)
    let upstream = reader.read(Self.upstream)
    let caFile = reader.read(Self.caFile)
    let proxy = reader.isSet(Self.proxy.path) ? reader.read(Self.proxy) : nil
    let cache = Cache(&reader)
    let timeouts = Timeouts(&reader)
    let concurrency = reader.read(Self.concurrency)
    guard let me = reader.read(Self.me), let upstream, let cache, let timeouts, let concurrency, enabled == true else {
      return nil
    }
    if !upstream.isSecure, !upstream.isLoopback, !allowsPlainUpstream {
      reader.reject(
        Self.upstream.path, problem: "is not https, so the developer token would travel in clear",
        remedy: "write https://, or start with --unsafe-plain-upstream")
    }
    self.init(
      upstream: upstream, caFile: caFile, me: me, proxy: proxy ?? proxies.proxy(for: upstream), cache: cache,
      timeouts: timeouts, concurrency: concurrency)
  }
}

extension Settings.Catalog.Cache {
  static let maxBytes = Setting(
    "catalog.cache.maxBytes", .size(0...64 << 30), default: 64 << 20, fixed: .of(\.catalog, \.cache.maxBytes),
    "The memory that the cache may use; 0 turns it off.")
  static let lifetime = Setting(
    "catalog.cache.lifetime", .duration(seconds: 0...86_400), default: .seconds(300),
    fixed: .of(\.catalog, \.cache.lifetime),
    "How long a response is fresh if Apple does not say.")
  static let notFoundLifetime = Setting(
    "catalog.cache.notFoundLifetime", .duration(seconds: 0...86_400), default: .seconds(60),
    fixed: .of(\.catalog, \.cache.notFoundLifetime),
    "The same for a 404.")
  static let staleWhileRevalidate = Setting(
    "catalog.cache.staleWhileRevalidate", .duration(seconds: 0...86_400), default: .seconds(60),
    fixed: .of(\.catalog, \.cache.staleWhileRevalidate),
    "How long after that the server still serves it while it fetches a new one.")
  static let staleIfError = Setting(
    "catalog.cache.staleIfError", .duration(seconds: 0...2_592_000), default: .seconds(86_400),
    fixed: .of(\.catalog, \.cache.staleIfError),
    "How long after that the server serves it if Apple cannot be reached, fails or has a 429.")

  static let known: [any SettingRow] =
    [maxBytes, lifetime, notFoundLifetime, staleWhileRevalidate, staleIfError]

  init?(_ reader: inout SettingsReader) {
    let maxBytes = reader.read(Self.maxBytes)
    let lifetime = reader.read(Self.lifetime)
    let notFound = reader.read(Self.notFoundLifetime)
    let revalidate = reader.read(Self.staleWhileRevalidate)
    guard let staleIfError = reader.read(Self.staleIfError), let maxBytes, let lifetime, let notFound, let revalidate
    else { return nil }
    self.init(
      maxBytes: maxBytes, lifetime: lifetime, notFoundLifetime: notFound, staleWhileRevalidate: revalidate,
      staleIfError: staleIfError)
  }
}

extension Settings.Catalog.Timeouts {
  static let connect = Setting(
    "catalog.timeouts.connect", .duration(seconds: 1...60), default: .seconds(5),
    fixed: .of(\.catalog, \.timeouts.connect),
    "For a connection to Apple: name, address, TLS.")
  static let firstByte = Setting(
    "catalog.timeouts.firstByte", .duration(seconds: 1...300), default: .seconds(10),
    fixed: .of(\.catalog, \.timeouts.firstByte),
    "From the request to the head of Apple's response.")
  static let whole = Setting(
    "catalog.timeouts.whole", .duration(seconds: 1...600), default: .seconds(30),
    fixed: .of(\.catalog, \.timeouts.whole),
    "For the whole request, with retries and content. It ends a response over 1 MiB whose caller has not read it by "
      + "then.")
  static let staleAfter = Setting(
    "catalog.timeouts.staleAfter", .duration(milliseconds: 0...600_000), default: .milliseconds(500),
    fixed: .of(\.catalog, \.timeouts.staleAfter),
    "How long a caller waits for Apple when a usable stale response exists. Then the caller gets that one, and "
      + "the request to Apple continues.")

  static let known: [any SettingRow] =
    [connect, firstByte, whole, staleAfter]

  init?(_ reader: inout SettingsReader) {
    let connect = reader.read(Self.connect)
    let firstByte = reader.read(Self.firstByte)
    let staleAfter = reader.read(Self.staleAfter)
    guard let whole = reader.read(Self.whole), let connect, let firstByte, let staleAfter else { return nil }
    self.init(connect: connect, firstByte: firstByte, whole: whole, staleAfter: staleAfter)
  }
}

/// The values of `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case, as curl and most other programs use them.
package struct ProxyEnvironment: Sendable {
  private let environment: [String: String]

  package init(_ environment: [String: String]) {
    self.environment = environment
  }

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
      variable: proxy.name, problem: "is not the URL of a proxy, and the server needs one for \(users)",
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
  static let upstreamProxy: SettingType = {
    let remedy = "write a URL such as \"http://proxy.example.com:3128\""
    return string(remedy) { (text) throws(InvalidValue) in
      guard (try? UpstreamProxy(text)) != nil else {
        throw InvalidValue(problem: "is not the URL of a proxy", remedy: remedy)
      }
      return text
    }
  }()
}
