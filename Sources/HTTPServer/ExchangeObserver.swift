public import EventLoop
public import HTTP1
public import TLS
public import Telemetry

/// The record of one request and its response.
public struct CompletedRequest {
  /// The request's ID.
  public let id: RequestID
  /// The request's method, or nil if no request line could be parsed.
  public let method: RequestHead.Method?
  /// The route's template, or nil if no route matched.
  public let route: StaticString?
  /// The status code of the response.
  public let status: Int
  /// The number of content bytes sent.
  public let bytes: Int
  /// The time from the first byte of the request to the response.
  public let duration: Duration
  /// The client's address, without the port.
  public let clientAddress: String
}

/// An observer of responses and notices. The server calls it on an event loop, so it must not block.
public protocol ExchangeObserver: Sendable {
  /// Returns the observer for one loop. A server calls it once per loop, when it starts. An observer with state per
  /// loop returns a separate observer, so that loops share no state. Other observers return themselves.
  func forOneLoop() -> any ExchangeObserver
  /// Whether the observer records responses. The server reads it once per loop, when it starts.
  var recordsExchanges: Bool { get }
  /// Receives the record of a response that is about to be written.
  func completed(_ exchange: borrowing CompletedRequest)
  /// Receives a notice for the operator about an event outside of any request.
  func noticed(_ notice: ServerNotice)
}

extension ExchangeObserver {
  /// Returns this observer.
  public func forOneLoop() -> any ExchangeObserver { self }
}

/// A notice for the operator about connections.
public enum ServerNotice: Sendable {
  /// Accepting pauses because the system has no descriptors or memory left.
  case acceptPaused(SocketError)
  /// A connection was refused because there are too many in total.
  case tooManyConnections(SocketAddress)
  /// A connection was refused because its address has too many.
  case tooManyConnectionsFromAddress(SocketAddress)
  /// A connection's request for memory was refused because `ServerLimits.memory` is exhausted.
  case memoryRefused(SocketAddress)
  /// A TLS handshake failed.
  case tlsFailed(SocketAddress, TLSError)
  /// A connection from a trusted proxy was closed because it had no valid PROXY header.
  case proxyHeaderRefused(SocketAddress, ProxyHeaderError)
  /// A request from an untrusted peer had a proxy's fields, which were ignored.
  case forwardingIgnored(SocketAddress)
  /// A trusted proxy sent `Forwarded` and `X-Forwarded-For` with different clients; both were ignored.
  case forwardingContradictory(SocketAddress)
}
