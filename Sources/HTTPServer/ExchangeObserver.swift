public import EventLoop
public import HTTP1
public import TLS
public import Telemetry

/// One request and its response, as it is recorded.
public struct CompletedRequest {
  /// The request's ID.
  public let id: RequestID
  /// The request's method, nil if no request line could be read.
  public let method: RequestHead.Method?
  /// The route's template, nil if none was reached.
  public let route: StaticString?
  /// The status code that was sent.
  public let status: Int
  /// Bytes of content that were sent.
  public let bytes: Int
  /// From the first byte of the request to the response.
  public let duration: Duration
  /// Who asked, without the port.
  public let clientAddress: String
}

/// Hears of every response, on the loop that gave it: it must not block.
public protocol ExchangeObserver: Sendable {
  /// The one that hears of what happens on one loop; asked for once for each, when a server starts. It is for observers
  /// that keep something for each loop, so that loops need not meet; the others are the same one for all.
  func forOneLoop() -> any ExchangeObserver
  /// Whether it wants to hear of responses; asked once for each loop, when a server starts.
  var recordsExchanges: Bool { get }
  /// A response is about to be written.
  func completed(_ exchange: borrowing CompletedRequest)
  /// Something that the operator should know happened outside of any request.
  func noticed(_ notice: ServerNotice)
}

extension ExchangeObserver {
  /// This one.
  public func forOneLoop() -> any ExchangeObserver { self }
}

/// Something about connections that the operator should know.
public enum ServerNotice: Sendable {
  /// Accepting pauses because the system has no descriptors or memory left.
  case acceptPaused(SocketError)
  /// A connection was turned away because there are too many in all.
  case tooManyConnections(SocketAddress)
  /// A connection was turned away because its address has too many.
  case tooManyConnectionsFromAddress(SocketAddress)
  /// What a connection asked to have kept was refused for want of `ServerLimits.memory`.
  case memoryRefused(SocketAddress)
  /// A TLS handshake failed.
  case tlsFailed(SocketAddress, TLSError)
  /// A connection from a trusted proxy was closed because it had no PROXY header to believe.
  case proxyHeaderRefused(SocketAddress, ProxyHeaderError)
  /// A request had fields of a proxy's, from a peer that is not trusted: they were ignored.
  case forwardingIgnored(SocketAddress)
  /// A trusted proxy let `Forwarded` and `X-Forwarded-For` name different clients: both were ignored.
  case forwardingContradictory(SocketAddress)
}
