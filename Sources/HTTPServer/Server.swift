package import EventLoop
import Glibc
package import HTTP1
import HTTPTypes
package import Memory
package import TLS

/// An HTTP server with one endpoint, served by every loop that it receives.
///
/// Its methods may be called on any thread except a loop's. Methods that block say so.
package final class Server: Sendable {
  package struct Configuration: Sendable {
    package var endpoint: Endpoint
    package var tls: TLSContext?
    /// The value of Strict-Transport-Security in responses over TLS (RFC 6797 §7.1), or nil to omit the field.
    package var strictTransportSecurity: String?
    package var http2 = HTTP2Use.never
    package var limits = ServerLimits()
    package var memory = MemoryBudget.unlimited()
    /// Returns whether an address is a trusted proxy: its `Forwarded`, `X-Forwarded-For` and `X-Request-ID` count, and the
    /// limit of connections per address does not. The permissions of a Unix-domain socket make each peer there one.
    package var isTrustedProxy: @Sendable (IPAddress) -> Bool = { _ in false }
    /// The field of trusted proxies that names the client.
    package var forwardedField = ForwardedHops.Field.forwardedFor
    /// Whether trusted proxies, and no others, begin each connection with a PROXY header. One without it is closed.
    package var requiresProxyHeader = false
    /// Whether a successor may listen on the same TCP address while this server drains.
    package var reusesPort = false
    /// The time that a connection request may take to arrive during a drain: by default 20 ms if all addresses are
    /// loopback or Unix-domain, else 200 ms for a slow round trip.
    package var roundTrip: Duration?
    /// The descriptors that each loop keeps for connections when the process or the system has no others left.
    package var spareDescriptors = 0
    package var observer: any ExchangeObserver

    /// When a connection speaks HTTP/2 (RFC 9113 §3).
    package enum HTTP2Use: Sendable {
      case never
      /// If TLS has negotiated it by ALPN.
      case byALPN
      /// As above, or if the connection begins with the preface of HTTP/2.
      case byPreface
    }

    package init(endpoint: Endpoint, observer: any ExchangeObserver) {
      (self.endpoint, self.observer) = (endpoint, observer)
    }
  }

  /// The addresses of the listeners, with the ports that the system picked.
  package let addresses: [SocketAddress]

  let workers: [Worker]
  private let count: ConnectionCount
  private let roundTrip: Duration

  /// Opens the listeners and starts to serve. Blocks until every loop accepts connections.
  package init(_ configuration: Configuration, router: Router, loops: [IOLoop]) throws(ListenError) {
    let listeners = try Listener.open(
      configuration.endpoint, loops: loops.count, writeProgress: configuration.limits.writeProgress,
      reusesPort: configuration.reusesPort)
    let count = ConnectionCount(limits: configuration.limits)
    let workers = loops.map {
      Worker(loop: $0, of: loops.count, configuration: configuration, router: router, count: count)
    }
    addresses = listeners.compactMap(\.first?.address)
    (self.workers, self.count) = (workers, count)
    let isLocal = addresses.allSatisfy { $0.ipAddress?.isLoopback ?? true }
    roundTrip = configuration.roundTrip ?? .milliseconds(isLocal ? 20 : 200)
    for (index, worker) in workers.enumerated() {
      let own = listeners.map { $0[index] }
      worker.loop.performAndWait { worker.start(own) }
    }
  }

  /// Replaces the router for requests that begin from now on, and the TLS context for new connections.
  package func replace(router: Router, tls: TLSContext?, strictTransportSecurity: String? = nil) {
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
  package func beginDrain() { onEachLoop { $0.drain(to: .draining) } }

  /// Closes the server without losing a request that has arrived. Blocks until all requests have a response, or until
  /// `timeout` has passed. The remaining requests are then refused with 503.
  ///
  /// The order matters (each step was measured to lose connections without the previous one). First the server ignores
  /// connection requests. A round trip later, it accepts all waiting connections and closes the listeners. From then on
  /// idle connections have the time of ``Connection/drainGrace`` for one more request.
  package func drain(timeout: Duration) {
    beginDrain()
    onEachLoop { worker in worker.listeners.forEach { $0.refuseConnectionRequests() } }
    usleep(UInt32(clamping: roundTrip.wholeNanoseconds / 1000))
    onEachLoop { $0.acceptRestAndCloseListeners() }
    onEachLoop { $0.drain(to: .closing) }
    guard !count.waitForNone(timeout: timeout) else { return }
    onEachLoop { $0.abandonConnections() }
    // The last responses are in the sockets, or their peers do not read.
    _ = count.waitForNone(timeout: .seconds(1))
  }

  /// The number of open connections, and of all connections since the start, including the open ones.
  package var connections: (open: Int, accepted: Int) { count.totals }
  /// As ``IOLoop/connectionsWithoutDeadline``, over all its loops, including connections to an upstream.
  package var connectionsWithoutDeadline: Int { workers.map(\.loop.connectionsWithoutDeadline).reduce(0, +) }

  package var loopLags: [LoopLag] { workers.map(\.loop.lag) }

  private func onEachLoop(_ action: @escaping @Sendable (Worker) -> Void) {
    for worker in workers { worker.loop.performAndWait { action(worker) } }
  }
}

/// A notice for the operator about connections.
package enum ServerNotice: Sendable {
  /// Accepting pauses because the system has no descriptors or memory left.
  case acceptPaused(SocketError)
  /// A connection that only waited was ended, so that another address gets its place or its memory.
  case connectionRecycled(SocketAddress)
  case tooManyConnections(SocketAddress)
  case tooManyConnectionsFromAddress(SocketAddress)
  case tooLittleMemoryForConnection(SocketAddress)
  /// An open connection got no more memory.
  case memoryRefused(SocketAddress)
  /// A connection was closed because its TLS handshake had waited too long for its turn.
  case handshakeShed(SocketAddress)
  /// A connection was reset because its address has too many connections whose requests the server serves too late.
  case connectionShed(SocketAddress)
  /// A request was refused because its turn had not come in time. The client is its own, also behind trusted proxies.
  case requestShed(client: String)
  case tlsFailed(SocketAddress, TLSError)
  case proxyHeaderRefused(SocketAddress, ProxyHeaderError)
  /// A request from an untrusted peer had a proxy's fields, which were ignored.
  case forwardingIgnored(SocketAddress)
  case http2Misconduct(SocketAddress, HTTP2Misconduct)
  /// A trusted proxy sent the one of `Forwarded` and `X-Forwarded-For` that does not count, alone or with another client, so
  /// the request counts for the unknown caller.
  case forwardingContradictory(SocketAddress)
}
