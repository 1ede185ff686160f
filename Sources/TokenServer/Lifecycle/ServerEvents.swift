import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Locks
import Logging
import TLS
import Telemetry
import Tracing

/// Counts the events of the HTTP server and logs them: a line for each request, and warnings at a bounded rate.
struct ServerEvents: ExchangeObserver {
  let sink: LogSink
  let logger: Logger
  private let metrics: ServerMetrics?
  /// The tally of one loop.
  private var tally: RequestTally?
  private let spans: SpanExporter?
  private let throttle: Throttle
  /// For lines about forwarding fields: more peers than a deployment has proxies, and few enough to read in a log.
  private let strangers = Locked(PeerThrottle(maximum: 256, pause: .seconds(Int64.max)))
  private let handshakes = Locked(PeerThrottle(maximum: 1024, pause: .seconds(600)))

  init(sink: LogSink, logger: Logger, metrics: ServerMetrics? = nil, spans: SpanExporter? = nil) {
    (self.sink, self.logger, throttle) = (sink, logger, Throttle(logger))
    (self.metrics, self.spans) = (metrics, spans)
  }

  func forOneLoop() -> any ExchangeObserver {
    var own = self
    own.tally = metrics?.requests.makeTally()
    return own
  }

  /// Only a person at a terminal sees paths, because the path of a library request names the user's items.
  var recordedPathBytes: Int { sink.isForPerson ? AccessRecord.columns : 0 }

  func completed(_ request: Request, _ response: Response, bytes: Int) {
    // A reload may turn the access log on.
    guard tally != nil || spans != nil || sink.filter.hasRequests else { return }
    let (method, route) = (request.statedMethod?.name ?? "-", request.route ?? "-")
    let (status, duration) = (response.status.code, request.duration)
    tally?.count(
      route: route, method: method, status: status, bytes: bytes, duration: duration, client: response.client)
    if let shortage = response.shortage { metrics?.connections.withLock { $0.shortages[shortage, default: 0] += 1 } }
    if let spans, spans.sampler.records(request.trace) { spans.record(FinishedSpan(request, status, duration)) }
    guard sink.filter.hasAccessLine(status: status, of: request.trace), !isLook(route, status) else { return }
    // At a terminal, a visit of the page has the line of its document only.
    if sink.isForPerson, status < 400, route.description.hasPrefix("/page/") { return }
    var record = AccessRecord(
      requestID: request.id, trace: request.trace, client: request.client.name, method: "\(method)", route: route,
      path: request.recordedPath, status: status, bytes: bytes, duration: duration)
    if let replaced = response.replaced {
      let texts: [(StaticString, String?)] = [
        (#","upstream.code":"#, replaced.code), (#","upstream.id":"#, replaced.id),
        (#","upstream.title":"#, replaced.title), (#","upstream.correlation_key":"#, replaced.correlationKey),
        (#","upstream.request_uuid":"#, replaced.requestUUID), (#","upstream.retry_after":"#, replaced.retryAfter),
      ]
      record.upstream = (replaced.status, texts)
    }
    sink.log(record)
  }

  /// Whether the live view of the page has sent the request, as it does each second: the lines would fill the terminal. A
  /// public listener has metrics only in the demo, for the page.
  private func isLook(_ route: StaticString, _ status: Int) -> Bool {
    status < 400 && (route.isSame(as: "/page/audit") || metrics != nil && route.isSame(as: "/metrics"))
  }

  func noticed(_ notice: ServerNotice) {
    metrics?.connections.withLock { $0.count(notice) }
    switch notice {
    case .acceptPaused(let error):
      throttle.log("acceptPaused", "The server pauses accepting connections: \(error.shortage)", ["error": "\(error)"])
    case .connectionRecycled(let peer):
      warn(
        "recycled",
        """
        The server ended a connection that only waited: it has reached server.limits.connections or server.limits.memory, \
        and another address needed the room.
        """, "\(peer)")
    case .tooManyConnections(let peer):
      warn("tooMany", "The server refused a connection: it has reached server.limits.connections.", "\(peer)")
    case .tooManyConnectionsFromAddress(let peer):
      warn(
        "tooManyFromAddress",
        "The server refused a connection: its address has reached server.limits.connectionsPerAddress.", "\(peer)")
    case .tooLittleMemoryForConnection(let peer), .memoryRefused(let peer):
      warn("memory", "The server refused a request or a connection: it has reached server.limits.memory.", "\(peer)")
    case .handshakeShed(let peer), .connectionShed(let peer): warn("overload", Self.overload, "\(peer)")
    case .requestShed(let client): warn("overload", Self.overload, client)
    case .tlsFailed(let peer, let error): logFailedHandshake(error, peer)
    case .proxyHeaderRefused(let peer, let error):
      throttle.log(
        "proxyHeaderRefused",
        "The server closed a connection of a trusted proxy: server.proxyProtocol requires a PROXY header first.",
        ["client.address": "\(peer)", "error": "\(error)"])
    case .http2Misconduct(let peer, let misconduct):
      throttle.log(
        "http2Misconduct",
        "A client of HTTP/2 broke the protocol or a limit, so the server ended a stream or the connection.",
        ["client.address": "\(peer)", "reason": "\(misconduct.rawValue)"])
    case .forwardingIgnored(let peer):
      warnOnce(
        of: peer,
        """
        The server ignores Forwarded, X-Forwarded-For and X-Request-ID of this peer. If the peer is your proxy, add it \
        to server.trustedProxies. If not, it does not need to send them.
        """)
    case .forwardingContradictory(let peer):
      warnOnce(
        of: peer,
        """
        This proxy sends the one of Forwarded and X-Forwarded-For that server.forwarded does not name, alone or with \
        another client. Such requests count for one caller with the address unknown. Configure the proxy to remove the \
        field that it does not write itself, or correct server.forwarded.
        """)
    }
  }

  private static let overload: Logger.Message =
    "The server refused a connection, a TLS handshake or a request: it has more work than it can do in time."

  private func warn(_ kind: String, _ message: @autoclosure () -> Logger.Message, _ client: @autoclosure () -> String) {
    throttle.log(kind, message(), ["client.address": "\(client())"])
  }

  private func logFailedHandshake(_ error: TLSError, _ peer: SocketAddress) {
    let (kind, network) = ("\(error.failure.label)", peer.ipAddress?.rateLimitPrefix)
    guard let suppressed = handshakes.withLock({ $0.admit(kind, of: network, at: .now) }) else { return }
    logger.log(
      level: error.failure.isForOperator ? .warning : .info, "A TLS session failed: \(error.failure.sentence).",
      ["client.address": "\(peer)", "error": "\(error)"], suppressed: suppressed)
  }

  /// Logs a warning once for each peer, because the peer causes it with every request.
  private func warnOnce(of peer: SocketAddress, _ message: @autoclosure () -> Logger.Message) {
    let network = peer.ipAddress?.rateLimitPrefix
    guard let suppressed = strangers.withLock({ $0.admit("", of: network, at: .now) }) else { return }
    let address = peer.ipAddress?.description ?? "unix"
    logger.log(level: .warning, message(), ["client.address": "\(address)"], suppressed: suppressed)
  }
}

extension SocketError {
  /// The exhausted resource, and the remedy, when the system grants no more sockets.
  fileprivate var shortage: String {
    switch code {
    case EMFILE: "this process has no descriptors left; raise its limit (ulimit -n, LimitNOFILE)."
    case ENFILE: "the system has no descriptors left; raise fs.file-max."
    case ENOBUFS, ENOMEM: "the kernel has no memory left for sockets."
    default: "the system allows no more."
    }
  }
}

extension RequestHead.Method {
  /// The method for the log. An unregistered method has no name here, because a client may send any text.
  var name: StaticString {
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
