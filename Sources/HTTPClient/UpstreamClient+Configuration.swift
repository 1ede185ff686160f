public import EventLoop
public import Memory
public import TLS

extension UpstreamClient {
  /// What a client is made with: where its upstream is, and how it is reached.
  public struct Configuration: Sendable {
    /// How the upstream is spoken to.
    public enum Scheme: String, Sendable, CaseIterable {
      /// In clear: for tests.
      case http
      /// Over TLS.
      case https
    }

    /// When HTTP/2 is spoken.
    public enum HTTP2: String, Sendable, CaseIterable {
      /// If the upstream chooses it by ALPN; so never without TLS.
      case alpn
      /// Always, without asking (RFC 9113 §3.3); over TLS it is the only protocol offered.
      case priorKnowledge
      /// Never.
      case never
    }

    /// How the upstream is spoken to.
    public var scheme: Scheme
    /// Its name, or its IP address without brackets.
    public var host: String
    /// Its port.
    public var port: UInt16
    /// Whom to trust. Without it, nothing can be sent over `https`.
    public var tls: TLSClientContext?
    /// The proxy through which connections are tunnelled; nil for none.
    public var proxy: UpstreamProxy?
    /// When HTTP/2 is spoken.
    public var http2 = HTTP2.alpn
    /// The bounds.
    public var limits = UpstreamLimits()
    /// What is charged for connections, and for unread content.
    public var memory = MemoryBudget.unlimited()
    /// How names are looked up; nil for the system's way.
    public var lookUp: NameResolver.LookUp?

    /// A configuration with the defaults for everything else.
    /// - Parameter port: nil for the scheme's.
    public init(
      _ scheme: Scheme, host: String, port: UInt16? = nil, tls: TLSClientContext? = nil, proxy: UpstreamProxy? = nil
    ) {
      self.scheme = scheme
      self.host = host
      self.port = port ?? scheme.port
      self.tls = tls
      self.proxy = proxy
    }

    /// The value of Host and `:authority`: without the port if it is the scheme's (RFC 9110 §4.2.3).
    var authority: String { port == scheme.port ? bracketedHost : endpoint }

    /// Host and port, always both.
    var endpoint: String { "\(bracketedHost):\(port)" }

    private var bracketedHost: String { host.contains(":") ? "[\(host)]" : host }

    /// The ALPN names to offer (RFC 7301), best first.
    var applicationProtocols: [String] {
      switch http2 {
      case .alpn: ["h2", "http/1.1"]
      case .priorKnowledge: ["h2"]
      case .never: ["http/1.1"]
      }
    }
  }
}

extension UpstreamClient.Configuration.Scheme {
  fileprivate var port: UInt16 { self == .https ? 443 : 80 }
}
