import Dispatch
public import EventLoop
import Glibc
public import HTTP1
import Locks
public import Memory
public import TLS

/// An HTTP server: one endpoint, served by every loop that it is given.
///
/// Its methods may be called from any thread but a loop's; those that say so block.
public final class Server: Sendable {
  /// What a server is made with.
  public struct Configuration: Sendable {
    /// Where it listens.
    public var endpoint: Endpoint
    /// With what it does TLS; nil for plain HTTP.
    public var tls: TLSContext?
    /// The value of Strict-Transport-Security in responses over TLS (RFC 6797 §7.1); nil to leave the field out.
    public var strictTransportSecurity: String?
    /// Whether connections may speak HTTP/2: if ALPN chooses it, or if they begin with its preface.
    public var speaksHTTP2 = false
    /// Its bounds.
    public var limits = ServerLimits()
    /// What is charged for what peers make the server hold.
    public var memory = MemoryBudget.unlimited()
    /// Whether an address is a trusted proxy's: its `Forwarded`, `X-Forwarded-For` and `X-Request-ID` count, and it is
    /// exempt from the limit of connections per address. A peer on a Unix-domain socket is always trusted, because the
    /// socket's permissions admitted it.
    public var isTrustedProxy: @Sendable (IPAddress) -> Bool = { _ in false }
    /// Whether trusted proxies begin each connection with a PROXY header. The server then closes a trusted proxy's
    /// connection without one. It never reads a PROXY header from another peer.
    public var requiresProxyHeader = false
    /// How long a connection request may be on its way when the server drains; nil for what does on loopback, or on a
    /// slow round trip elsewhere.
    public var roundTrip: Duration?
    /// Who hears of every response.
    public var observer: any ExchangeObserver

    /// A configuration with the default limits, plain HTTP and no trusted proxy.
    public init(endpoint: Endpoint, observer: any ExchangeObserver) {
      self.endpoint = endpoint
      self.observer = observer
    }
  }

  /// Where it listens, with the ports that the system picked.
  public let addresses: [SocketAddress]

  let workers: [Worker]
  private let count: ConnectionCount
  private let roundTrip: Duration

  /// Opens the listeners and begins to serve. Blocks until every loop accepts connections.
  public init(_ configuration: Configuration, router: Router, loops: [IOLoop]) throws(ListenError) {
    let listeners = try Listener.open(
      configuration.endpoint, loops: loops.count, writeProgress: configuration.limits.writeProgress)
    let count = ConnectionCount(limits: configuration.limits)
    let workers = loops.map { Worker(loop: $0, configuration: configuration, router: router, count: count) }
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

  /// Lets `router` answer requests that begin from now on; with `tls`, new connections do their handshake with that.
  public func replace(router: Router, tls: TLSContext?, strictTransportSecurity: String? = nil) {
    for worker in workers {
      worker.loop.post {
        worker.router = router
        worker.tls = tls
        worker.strictTransportSecurity = strictTransportSecurity
      }
    }
  }

  /// From now on every response is its connection's last, unless the next request has arrived behind it; all is served.
  public func beginDrain() {
    onEachLoop { $0.beginDrain() }
  }

  /// Closes without losing a request that has arrived. Blocks until all are answered, or `timeout` has passed; then
  /// those still under way are refused with 503.
  ///
  /// The order matters (each step was measured to lose connections without the one before it): connection requests
  /// are ignored, then, a round trip later, all that wait are accepted and the listeners close. From then on each
  /// connection at rest is kept until it has carried one more request, whose response says `Connection: close`, or for
  /// four round trips, at least 1 s; over HTTP/2 as long passes between the two GOAWAY frames (RFC 9113 §6.8).
  public func drain(timeout: Duration) {
    beginDrain()
    onEachLoop { $0.refuseConnectionRequests() }
    pause(roundTrip)
    onEachLoop { $0.acceptRestAndCloseListeners() }
    onEachLoop { $0.closeIdleConnections() }
    guard !count.waitForNone(timeout: timeout) else { return }
    onEachLoop { $0.abandonConnections() }
    // Each has its last response in the socket or is not reading: a linger's time is all that is left to give.
    _ = count.waitForNone(timeout: .seconds(1))
  }

  /// How many connections are open, and how many there were since the start, these included.
  public var connections: (open: Int, accepted: Int) { count.totals }

  /// How many connections of its loops had no deadline when the loops last had nothing to do, those to an upstream
  /// included. Always 0, unless this program has a defect.
  public var connectionsWithoutDeadline: Int {
    workers.map(\.loop.connectionsWithoutDeadline).reduce(0, +)
  }

  private func onEachLoop(_ action: @escaping @Sendable (Worker) -> Void) {
    for worker in workers { worker.loop.performAndWait { action(worker) } }
  }

  private func pause(_ duration: Duration) {
    usleep(UInt32(clamping: duration.nanoseconds / 1000))
  }
}

extension SocketAddress {
  /// Whether only this machine can be at the other end.
  fileprivate var isLocal: Bool { ipAddress?.isLoopback ?? true }
}

/// Every bound of the server, in one place: what it is, its default, its unit and its reason.
public struct ServerLimits: Sendable, Equatable {
  /// Connections open at once, in all. Each may hold a descriptor, a receive buffer and a TLS session.
  public var connections = 10_000
  /// Bytes that peers and the upstream may make the server hold, see `MemoryBudget`. The response cache has a limit of its
  /// own.
  public var memory = 512 << 20
  /// Connections open at once from one IPv4 address or IPv6 /64. High, because many users may stand behind one (NAT).
  public var connectionsPerAddress = 4_096

  /// Time for what comes before the first request, PROXY header and TLS handshake, from the accepted connection on.
  public var tlsHandshake = Duration.seconds(10)
  /// Time for a header section in all, from its first byte on: not per byte, or a client could drip for ever.
  public var headerSection = Duration.seconds(10)
  /// Time without progress in the body of a request.
  public var bodyProgress = Duration.seconds(30)
  /// Time for the body of a request in all: a client that drips makes progress, but is not served for ever.
  public var body = Duration.seconds(120)
  /// Time without progress in writing a response: a client that never reads.
  public var writeProgress = Duration.seconds(30)
  /// Time for a handler that waits, until its response or the next part of it: an upstream that never answers must not hold
  /// a caller's connection. Longer than any timeout that handlers have themselves, which say more.
  public var work = Duration.seconds(120)
  /// Time for a handler to end after it was cancelled; then its connection closes under it.
  public var cancelledWork = Duration.seconds(10)
  /// Time between two requests of a connection, and before the first one.
  public var idle = Duration.seconds(75)
  /// Time for the peer to close its side after a refusal, so that the refusal reaches it (RFC 9112 §9.6).
  public var linger = Duration.seconds(2)

  /// Bytes of a body that a route reads; with more the request is refused with 413.
  public var bodyBytes = 16_384
  /// Bytes of an unread body that are consumed to keep the connection; with more it closes.
  public var unreadBody = 65_536
  /// Bytes that are discarded after a refusal before the connection is cut.
  public var lingerBytes = 1_048_576
  /// Bytes read in one go, and the size of the buffers that a loop lends.
  public var receiveBuffer = 16_384
  /// Bytes of responses gathered before they are written: pipelined requests cost one write, and a client that never
  /// reads makes the server hold no more than this and one response.
  public var sendBuffer = 65_536

  /// The bounds of the HTTP/1.1 codec.
  public var http1 = HTTP1Limits()

  /// The defaults.
  public init() {}
}

/// How many connections there are, in all and per address, over all loops of a server.
final class ConnectionCount: Sendable {
  private let state = Locked(State())
  private let limits: ServerLimits
  private let group = DispatchGroup()

  private struct State {
    var total = 0
    var admitted = 0
    var perAddress: [IPAddress: Int] = [:]
  }

  init(limits: ServerLimits) {
    self.limits = limits
  }

  enum Admission { case granted, tooMany, tooManyFromAddress }

  /// Counts a connection, unless there are too many. `address` is nil for a connection that is exempt from the limit
  /// per address. `release` takes the same `address`.
  func admit(_ address: IPAddress?) -> Admission {
    state.withLock { state in
      guard state.total < limits.connections else { return .tooMany }
      if let address {
        let count = state.perAddress[address, default: 0]
        guard count < limits.connectionsPerAddress else { return .tooManyFromAddress }
        state.perAddress[address] = count + 1
      }
      state.total += 1
      state.admitted &+= 1
      group.enter()
      return .granted
    }
  }

  /// Counts a connection out.
  func release(_ address: IPAddress?) {
    state.withLock { state in
      state.total -= 1
      guard let address, let count = state.perAddress[address] else { return }
      state.perAddress[address] = count > 1 ? count - 1 : nil
    }
    group.leave()
  }

  /// How many there are, and how many were ever counted in.
  var totals: (open: Int, accepted: Int) { state.withLock { ($0.total, $0.admitted) } }

  /// Blocks until there are none, at most for `timeout`; false if some are left.
  func waitForNone(timeout: Duration) -> Bool {
    group.wait(timeout: .now() + .nanoseconds(Int(clamping: timeout.nanoseconds))) == .success
  }
}

extension Duration {
  /// Whole nanoseconds.
  var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? .max : product + attoseconds / 1_000_000_000
  }
}
