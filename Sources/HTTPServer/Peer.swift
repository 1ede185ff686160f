import Bytes
import EventLoop
import HTTP1
public import Memory
import TLS
import Tracing

/// The address of a client, in the forms that a request needs.
public struct ClientAddress: Sendable {
  /// The address without the port, `unix` or `unknown`.
  public let name: String
  /// The unit of shares and limits: an IPv4 address, an IPv6 network of /64, `unix` or `unknown`.
  public let rateLimitPrefix: String
  /// The holder that memory is charged to; nil for a trusted proxy, and for a peer behind a Unix-domain socket.
  public let holder: MemoryBudget.Holder?

  /// All requests without a known client, as one caller, with the unspecified address as holder (RFC 4291 §2.5.2).
  static let unknown = ClientAddress(name: "unknown", rateLimitPrefix: "unknown", holder: 0)
}

extension ClientAddress {
  init(_ address: IPAddress, isTrusted: Bool = false) {
    let (name, prefix) = (address.description, address.rateLimitPrefix)
    self.init(
      name: name, rateLimitPrefix: address.isIPv4 ? name : prefix.description, holder: isTrusted ? nil : prefix.bits)
  }
}

/// The peer of a connection, and whether the server trusts its data about other clients.
struct Peer {
  /// The TCP peer's address, or that of the PROXY header.
  private(set) var address: SocketAddress
  private(set) var client: ClientAddress
  private(set) var isTrusted: Bool
  var certificate: ClientCertificate?

  init(_ address: SocketAddress, isTrusted: Bool) {
    self.address = address
    client =
      address.ipAddress.map { ClientAddress($0, isTrusted: isTrusted) }
      ?? ClientAddress(name: "unix", rateLimitPrefix: "unix", holder: nil)
    self.isTrusted = isTrusted
  }

  /// Makes the proxy's client the peer. If the proxy names no address, its client's data about others is not trusted.
  mutating func relay(for source: ProxyHeader.Source, trusts isTrustedProxy: (IPAddress) -> Bool) {
    switch source {
    case .proxy: break
    case .unknown: isTrusted = false
    case .address(let address, let port):
      self.address = .ip(address, port: port)
      isTrusted = isTrustedProxy(address)
      client = ClientAddress(address, isTrusted: isTrusted)
    }
  }
}

/// The client of a request, behind the proxies that are trusted to name it.
extension Connection {
  /// Sets the ID and the client that the fields of a trusted proxy name.
  func identify(_ request: Request, by fields: ForwardingFields) {
    guard peer.isTrusted else { return worker.observer.noticed(.forwardingIgnored(peer.address)) }
    if fields.contains(.requestID), case .single(let text) = request.field("x-request-id"),
      let id = RequestID(String(decoding: text, as: UTF8.self))
    {
      request.id = id
    }
    if let client = forwardedClient(of: request, fields) { request.client = client }
  }

  /// Returns the caller's span; nil if the fields are malformed or repeated (W3C Trace Context §4.3).
  func parent(of request: Request) -> SpanContext? {
    guard case .single(let value) = request.field("traceparent"), var parent = SpanContext(traceparent: value.span)
    else { return nil }
    guard peer.isTrusted else { return parent }
    var reader = TraceState.Reader()
    request.forEach("tracestate") { reader.add($0) }
    parent.state = reader.state
    return parent
  }

  /// Returns the client that the field of the settings names; nil if the request counts as the proxy's own.
  ///
  /// A proxy that writes one of the two fields may forward the other as the client invented it. If that comes alone or with
  /// another client, the settings or the proxy are wrong, and the server cannot know the client. It is never the proxy,
  /// which may have more than other callers.
  private func forwardedClient(of request: Request, _ fields: ForwardingFields) -> ClientAddress? {
    let counts = worker.configuration.forwardedField
    let other: ForwardedHops.Field = counts == .forwarded ? .forwardedFor : .forwarded
    let client = fields.contains(counts.flag) ? farthestHop(counts, of: request) : nil
    if fields.contains(other.flag), !fields.contains(counts.flag) || client != farthestHop(other, of: request) {
      worker.observer.noticed(.forwardingContradictory(peer.address))
      return .unknown
    }
    return client.map { ClientAddress($0) }
  }

  /// Returns the farthest address that a trusted peer names: from the end of the list, the first address that is not a
  /// trusted proxy's. The client may have invented everything before it. If the list ends or has an invalid entry first, it is
  /// the farthest trusted proxy, because a client without an address would escape every limit.
  private func farthestHop(_ field: ForwardedHops.Field, of request: Request) -> IPAddress? {
    let (head, bytes) = (request.head, request.bytes)
    let span = bytes.span
    var farthest = peer.address.ipAddress
    var left = Self.maximumHops
    // The field lines of one name form one list (RFC 9110 §5.3), so the last line contains its end.
    for line in head.fields.reversed() where span.equalsIgnoringCase(line.name, field.name) {
      var hops = ForwardedHops(field, line.value)
      while let text = hops.next(in: span) {
        guard left > 0, let hop = IPAddress(span.extracting(text)) else { return farthest }
        left -= 1
        farthest = hop
        guard worker.configuration.isTrustedProxy(hop) else { return farthest }
      }
    }
    return farthest
  }

  /// The maximum number of trusted proxies, more than any deployment has in a chain.
  private static let maximumHops = 32
}

/// The PROXY header, with which a trusted proxy begins each connection, before TLS, if the server requires it. To a
/// connection without a valid header the server sends nothing: its bytes have no meaning.
extension Connection {
  /// Reads the available bytes. Those after a complete header are handled as on any connection.
  func receiveProxyHeader() throws {
    try transport.receivePlaintext()
    let bytes = transport.input
    let header: ProxyHeader?
    do throws(ProxyHeaderError) { header = try ProxyHeader.parse(bytes.span) } catch { throw refused(error) }
    guard let header else {
      // A connection that ends without a byte is a load balancer's health check.
      if transport.peerHasFinished, !bytes.isEmpty { throw refused(.incomplete) }
      return
    }
    peer.relay(for: header.source, trusts: worker.configuration.isTrustedProxy)
    state.proxyHeaderCompleted()
    transport.consumed = header.length
    if awaitedTLS == nil { try finishHandshake() }
  }

  /// Notifies the observer of the reason, and returns the reason to close the connection.
  func refused(_ error: ProxyHeaderError) -> CloseReason {
    worker.observer.noticed(.proxyHeaderRefused(peer.address, error))
    return .gone
  }
}

extension ForwardedHops.Field {
  fileprivate var flag: ForwardingFields { self == .forwarded ? .forwarded : .forwardedFor }
}
