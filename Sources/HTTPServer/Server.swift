public import EventLoop
import Glibc
public import HTTP1
import HTTPTypes
public import Memory
public import TLS

/// An HTTP server with one endpoint, served by every loop that it receives.
///
/// Its methods may be called on any thread except a loop's. Methods that block say so.
public final class Server: Sendable {
  /// The configuration of a server.
  public struct Configuration: Sendable {
    /// The endpoint to listen on.
    public var endpoint: Endpoint
    /// The TLS context, or nil for plain HTTP.
    public var tls: TLSContext?
    /// The value of Strict-Transport-Security in responses over TLS (RFC 6797 §7.1), or nil to omit the field.
    public var strictTransportSecurity: String?
    /// When a connection speaks HTTP/2.
    public var http2 = HTTP2Use.never
    /// The limits of the server.
    public var limits = ServerLimits()
    /// The budget for memory that peers make the server hold.
    public var memory = MemoryBudget.unlimited()
    /// Returns whether an address is a trusted proxy. The server then uses its `Forwarded`, `X-Forwarded-For` and
    /// `X-Request-ID`, and exempts it from the limit of connections per address. A peer on a Unix-domain socket is
    /// always trusted, because the socket's permissions accepted it.
    public var isTrustedProxy: @Sendable (IPAddress) -> Bool = { _ in false }
    /// The field of trusted proxies that names the client.
    public var forwardedField = ForwardedHops.Field.forwardedFor
    /// Whether trusted proxies begin each connection with a PROXY header. The server then closes a trusted proxy's
    /// connection without one. It never reads a PROXY header from another peer.
    public var requiresProxyHeader = false
    /// Whether a successor may listen on the same TCP address while this server drains.
    public var reusesPort = false
    /// The time that a connection request may take to arrive during a drain, or nil for a default: 20 ms if all
    /// addresses are loopback or Unix-domain, else 200 ms for a slow round trip.
    public var roundTrip: Duration?
    /// The number of descriptors that each loop keeps for connections when the process or the system has no others left.
    public var spareDescriptors = 0
    /// The observer of every response.
    public var observer: any ExchangeObserver

    /// When a connection speaks HTTP/2 (RFC 9113 §3).
    public enum HTTP2Use: Sendable {
      case never
      /// If TLS has negotiated it by ALPN.
      case byALPN
      /// As above, or if the connection begins with the preface of HTTP/2.
      case byPreface
    }

    /// Creates a configuration with the default limits, plain HTTP and no trusted proxy.
    public init(endpoint: Endpoint, observer: any ExchangeObserver) {
      self.endpoint = endpoint
      self.observer = observer
    }
  }

  /// The addresses of the listeners, with the ports that the system picked.
  public let addresses: [SocketAddress]

  let workers: [Worker]
  private let count: ConnectionCount
  private let roundTrip: Duration

  /// Opens the listeners and starts to serve. Blocks until every loop accepts connections.
  public init(_ configuration: Configuration, router: Router, loops: [IOLoop]) throws(ListenError) {
    let listeners = try Listener.open(
      configuration.endpoint, loops: loops.count, writeProgress: configuration.limits.writeProgress,
      reusesPort: configuration.reusesPort)
    let count = ConnectionCount(limits: configuration.limits)
    let workers = loops.map {
      Worker(loop: $0, of: loops.count, configuration: configuration, router: router, count: count)
    }
    self.addresses = listeners.compactMap(\.first?.address)
    self.workers = workers
    self.count = count
    self.roundTrip =
      configuration.roundTrip ?? (addresses.allSatisfy(\.isLocal) ? .milliseconds(20) : .milliseconds(200))
    for (index, worker) in workers.enumerated() {
      let own = listeners.map { $0[index] }
      worker.loop.performAndWait { worker.start(own) }
    }
  }

  /// Replaces the router for requests that begin from now on, and the TLS context for new connections.
  public func replace(router: Router, tls: TLSContext?, strictTransportSecurity: String? = nil) {
    let fields: HTTPFields = strictTransportSecurity.map { [.strictTransportSecurity: $0] } ?? [:]
    for worker in workers {
      worker.loop.post {
        worker.router = router
        worker.tls = tls
        worker.strictTransportSecurity = fields
      }
    }
  }

  /// Makes every response its connection's last, unless the next request has already arrived.
  public func beginDrain() { onEachLoop { $0.drain(to: .draining) } }

  /// Closes the server without losing a request that has arrived. Blocks until all requests have a response, or until
  /// `timeout` has passed. The remaining requests are then refused with 503.
  ///
  /// The order matters (each step was measured to lose connections without the previous one). First the server ignores
  /// connection requests. A round trip later, it accepts all waiting connections and closes the listeners. From then on
  /// it keeps each idle connection until one more request, with `Connection: close` in its response, or for four round
  /// trips, at least 1 s. Over HTTP/2 the same time passes between the two GOAWAY frames (RFC 9113 §6.8).
  public func drain(timeout: Duration) {
    beginDrain()
    onEachLoop { worker in worker.listeners.forEach { $0.refuseConnectionRequests() } }
    usleep(UInt32(clamping: roundTrip.wholeNanoseconds / 1000))
    onEachLoop { $0.acceptRestAndCloseListeners() }
    onEachLoop { $0.drain(to: .closing) }
    guard !count.waitForNone(timeout: timeout) else { return }
    onEachLoop { $0.abandonConnections() }
    // The last responses are in the sockets, or their peers do not read: only the time of a linger is useful.
    _ = count.waitForNone(timeout: .seconds(1))
  }

  /// The number of open connections, and of all connections since the start, including the open ones.
  public var connections: (open: Int, accepted: Int) { count.totals }

  /// The number of connections on its loops, including those to an upstream, without a deadline at the end of each
  /// loop's last turn. It is always 0, unless this program has a defect.
  public var connectionsWithoutDeadline: Int {
    workers.map(\.loop.connectionsWithoutDeadline).reduce(0, +)
  }

  /// The delays of each loop.
  public var loopLags: [LoopLag] { workers.map(\.loop.lag) }

  private func onEachLoop(_ action: @escaping @Sendable (Worker) -> Void) {
    for worker in workers { worker.loop.performAndWait { action(worker) } }
  }
}

extension SocketAddress {
  /// Whether the address is only reachable from this machine.
  fileprivate var isLocal: Bool { ipAddress?.isLoopback ?? true }
}

/// A notice for the operator about connections.
public enum ServerNotice: Sendable {
  /// Accepting pauses because the system has no descriptors or memory left.
  case acceptPaused(SocketError)
  /// A connection that only waited was ended, so that another address gets its place or its memory.
  case connectionRecycled(SocketAddress)
  /// A connection was refused because there are too many in total.
  case tooManyConnections(SocketAddress)
  /// A connection was refused because its address has too many.
  case tooManyConnectionsFromAddress(SocketAddress)
  /// A connection was refused because `ServerLimits.memory` is exhausted.
  case tooLittleMemoryForConnection(SocketAddress)
  /// An open connection's request for memory was refused because `ServerLimits.memory` is exhausted.
  case memoryRefused(SocketAddress)
  /// A connection was closed because its TLS handshake had waited too long for its turn.
  case handshakeShed(SocketAddress)
  /// A connection was reset because its address has too many connections whose requests the server serves too late.
  case connectionShed(SocketAddress)
  /// A request was refused because its turn had not come in time. The client is its own, also behind trusted proxies.
  case requestShed(client: String)
  case tlsFailed(SocketAddress, TLSError)
  /// A connection from a trusted proxy was closed because it had no valid PROXY header.
  case proxyHeaderRefused(SocketAddress, ProxyHeaderError)
  /// A request from an untrusted peer had a proxy's fields, which were ignored.
  case forwardingIgnored(SocketAddress)
  /// The client of an HTTP/2 connection has broken the protocol, caused work for nothing, or was too slow.
  case http2Misconduct(SocketAddress, HTTP2Misconduct)
  /// A trusted proxy sent the one of `Forwarded` and `X-Forwarded-For` that does not count, alone or with another client.
  /// The request counts for the unknown caller.
  case forwardingContradictory(SocketAddress)
}
