import HTTPClient
import HTTPMessages
import ServerSettings
import TLS

/// Where the keys of a provider are, and how to reach them.
struct KeySetPlace: Sendable, CustomStringConvertible {
  enum Address: Sendable {
    case keySet(ServiceURL)
    /// The URL of the discovery document of an issuer, which has the URL of the key set.
    case discovery(ServiceURL, issuer: String)
  }

  let address: Address
  private let authorities: TLSClientContext
  private let proxies: ProxyEnvironment

  /// Creates a place, and checks the proxy in front of it.
  init(_ address: Address, authorities: TLSClientContext, proxies: ProxyEnvironment) throws(StartError) {
    (self.address, self.authorities, self.proxies) = (address, authorities, proxies)
    _ = try configuration(for: url)
  }

  private var url: ServiceURL {
    switch address {
    case .keySet(let url), .discovery(let url, _): url
    }
  }

  var description: String { "\(url)" }

  /// Returns the way to a URL of the provider. Its keys may be at another host than its discovery document.
  func configuration(for url: ServiceURL) throws(StartError) -> UpstreamClient.Configuration {
    do {
      var configuration = UpstreamClient.Configuration(
        .https, host: url.origin.hostToResolve, port: url.origin.port, tls: authorities,
        proxy: try proxies.proxy(for: url.origin).map { try UpstreamProxy($0) })
      // HTTP/2 has no use for one request every few minutes.
      configuration.http2 = .never
      return configuration
    } catch {
      throw StartError("The server cannot fetch the key set at \(url): \(error)")
    }
  }
}
