import EventLoop
import Memory
import TLS

/// The other end of a connection, and whether what it says about others counts.
struct Peer {
  /// The address at the other end of TCP, or the one that the PROXY header names.
  private(set) var address: SocketAddress
  /// The address in logs. It is made once for all requests of the connection.
  private(set) var name: String
  /// The address as shares and limits count it.
  private(set) var rateLimitPrefix: String
  /// Whether what the peer says about others counts.
  private(set) var isTrusted: Bool
  /// Whether the other end of TCP is a trusted proxy, whatever it says about who is behind it.
  let comesByTrustedProxy: Bool
  /// The holder that memory is charged to, as long as no request is; nil for a trusted proxy.
  private(set) var holder: MemoryBudget.Holder?
  /// The certificate that the client has shown in the TLS handshake.
  var certificate: ClientCertificate?

  init(_ address: SocketAddress, isTrusted: Bool, holder: MemoryBudget.Holder?) {
    self.address = address
    (name, rateLimitPrefix) = Self.names(of: address)
    self.isTrusted = isTrusted
    comesByTrustedProxy = isTrusted
    self.holder = holder
  }

  /// From now on, the client that the proxy connects for is the peer. A proxy that names no address does not vouch for
  /// what its client says either.
  mutating func relay(for source: ProxyHeader.Source, trusts isTrustedProxy: (IPAddress) -> Bool) {
    switch source {
    case .proxy: break
    case .unknown: isTrusted = false
    case .address(let address, let port):
      self.address = .ip(address, port: port, family: address.isIPv4 ? .v4 : .v6)
      (name, rateLimitPrefix) = Self.names(of: self.address)
      isTrusted = isTrustedProxy(address)
      holder = isTrusted ? nil : address.rateLimitPrefix.bits
    }
  }

  private static func names(of address: SocketAddress) -> (String, String) {
    guard let address = address.ipAddress else { return ("unix", "unix") }
    let name = address.description
    return (name, address.isIPv4 ? name : address.rateLimitPrefix.description)
  }
}
