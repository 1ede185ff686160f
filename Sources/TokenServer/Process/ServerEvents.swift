import EventLoop
import Glibc
import HTTP1
import HTTPServer
import Logging
import TLS
import Telemetry

/// Counts what the HTTP server tells, and writes it into the log: a line for each request, and what an operator should
/// know, but not as often as an attacker likes.
struct ServerEvents: ExchangeObserver {
  let sink: LogSink
  let logger: Logger
  /// Nil if nothing is counted.
  private let metrics: ServerMetrics?
  /// The loop's own; nil until there is a loop.
  private var tally: RequestTally?
  private let writesAccessLog: Bool
  private let throttle = Throttle()
  private let strangers = WarnedPeers()
  private let handshakes = FailedHandshakes()

  init(sink: LogSink, logger: Logger, metrics: ServerMetrics? = nil) {
    self.sink = sink
    self.logger = logger
    self.metrics = metrics
    writesAccessLog = logger.logLevel <= .info
  }

  func forOneLoop() -> any ExchangeObserver {
    var own = self
    own.tally = metrics?.requests.makeTally()
    return own
  }

  var recordsExchanges: Bool { writesAccessLog || tally != nil }

  func completed(_ exchange: borrowing Exchange) {
    let method = exchange.method?.name ?? "-"
    tally?.count(
      route: exchange.route ?? "-", method: method, status: exchange.status, bytes: exchange.bytes,
      duration: exchange.duration)
    guard writesAccessLog else { return }
    sink.log(
      AccessRecord(
        requestID: exchange.id, client: exchange.client, method: "\(method)",
        route: exchange.route?.description ?? "-", status: exchange.status, bytes: exchange.bytes,
        duration: exchange.duration))
  }

  func noticed(_ notice: ServerNotice) {
    metrics?.connections.count(notice)
    switch notice {
    case .acceptPaused(let error):
      warn(
        "acceptPaused", "Accepting connections pauses: \(error.shortage)", ["error": "\(error)"])
    case .tooManyConnections(let peer):
      warn(
        "tooMany", "Connections are turned away: server.limits.connections is reached.", ["client.address": "\(peer)"])
    case .tooManyConnectionsFromAddress(let peer):
      warn(
        "tooManyFromAddress", "A connection is turned away: server.limits.connectionsPerAddress is reached.",
        ["client.address": "\(peer)"])
    case .memoryRefused(let peer):
      warn(
        "memory", "Requests or connections are refused: server.limits.memory is reached.", ["client.address": "\(peer)"]
      )
    case .tlsFailed(let peer, let error):
      logFailedHandshake(error, peer)
    case .proxyHeaderRefused(let peer, let error):
      warn(
        "proxyHeaderRefused",
        "A connection is closed: server.proxyProtocol has trusted proxies begin with a PROXY header.",
        ["client.address": "\(peer)", "error": "\(error)"])
    case .forwardingIgnored(let peer):
      warnOnce(
        of: peer,
        """
        Forwarded, X-Forwarded-For and X-Request-ID of this peer do not count. If it is a proxy of yours, add it to \
        server.trustedProxies; if not, it need not send them.
        """)
    case .forwardingContradictory(let peer):
      warnOnce(
        of: peer,
        """
        This proxy lets Forwarded and X-Forwarded-For name different clients, so neither counts. Have it remove the \
        one that it does not write itself.
        """)
    }
  }

  private func logFailedHandshake(_ error: TLSError, _ peer: SocketAddress) {
    guard let suppressed = handshakes.admit(error.failure, of: peer.ipAddress?.rateLimitPrefix, at: .now) else { return }
    var metadata: Logger.Metadata = ["client.address": "\(peer)", "error": "\(error)"]
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    logger.log(
      level: error.failure.isForOperator ? .warning : .info, "A TLS session failed: \(error.failure.sentence).",
      metadata: metadata)
  }

  /// A peer says it with every request: the first time is enough, and far too many peers are one kind.
  private func warnOnce(of peer: SocketAddress, _ message: @autoclosure () -> Logger.Message) {
    switch strangers.note(peer.ipAddress?.rateLimitPrefix) {
    case .known: return
    case .new: logger.warning(message(), metadata: ["client.address": "\(peer.ipAddress?.description ?? "unix")"])
    case .tooMany: warn("strangers", message(), ["client.address": "\(peer.ipAddress?.description ?? "unix")"])
    }
  }

  private func warn(_ kind: String, _ message: Logger.Message, _ metadata: Logger.Metadata) {
    guard let suppressed = throttle.admit(kind) else { return }
    var metadata = metadata
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    logger.warning(message, metadata: metadata)
  }
}

extension SocketError {
  /// What ran out when the system gave no more sockets, and what helps.
  fileprivate var shortage: String {
    switch code {
    case EMFILE: "this process has no descriptors left; raise its limit (ulimit -n, LimitNOFILE)."
    case ENFILE: "the system has no descriptors left; raise fs.file-max."
    case ENOBUFS, ENOMEM: "the kernel has no memory left for sockets."
    default: "the system takes no more."
    }
  }
}

extension RequestHead.Method {
  /// As it is written; an unregistered one has no name here, because a client may send anything.
  fileprivate var name: StaticString {
    switch self {
    case .get: "GET"
    case .head: "HEAD"
    case .post: "POST"
    case .put: "PUT"
    case .delete: "DELETE"
    case .connect: "CONNECT"
    case .options: "OPTIONS"
    case .trace: "TRACE"
    case .patch: "PATCH"
    case .other: "OTHER"
    }
  }
}
