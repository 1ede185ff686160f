import EventLoop
import HTTP1
import HTTPServer
import Locks
import Logging
import Telemetry

/// Writes what the HTTP server tells into the log: a line for each request, and what an operator should know, but not
/// as often as an attacker likes.
struct ServerEvents: ExchangeObserver {
  let sink: LogSink
  let logger: Logger
  private let throttle = Throttle()

  init(sink: LogSink, logger: Logger) {
    self.sink = sink
    self.logger = logger
  }

  var recordsExchanges: Bool { logger.logLevel <= .info }

  func completed(_ exchange: borrowing Exchange) {
    sink.log(
      AccessRecord(
        requestID: exchange.id, client: exchange.client, method: exchange.method?.name ?? "-",
        route: exchange.route?.description ?? "-", status: exchange.status, bytes: exchange.bytes,
        duration: exchange.duration))
  }

  func noticed(_ notice: ServerNotice) {
    switch notice {
    case .acceptPaused(let error):
      warn(
        "acceptPaused", "Accepting connections pauses: the system has no more to give; raise the descriptor limit.",
        [
          "error": "\(error)"
        ])
    case .tooManyConnections(let peer):
      warn(
        "tooMany", "Connections are turned away: server.limits.connections is reached.", ["client.address": "\(peer)"])
    case .tooManyConnectionsFromAddress(let peer):
      warn(
        "tooManyFromAddress", "A connection is turned away: server.limits.connectionsPerAddress is reached.",
        ["client.address": "\(peer)"])
    case .tlsFailed(let peer, let error):
      logger.debug("A TLS session failed.", metadata: ["client.address": "\(peer)", "error": "\(error)"])
    }
  }

  private func warn(_ kind: String, _ message: Logger.Message, _ metadata: Logger.Metadata) {
    guard let suppressed = throttle.admit(kind) else { return }
    var metadata = metadata
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    logger.warning(message, metadata: metadata)
  }
}

/// Lets each kind of message through once in a while, and counts the others.
private final class Throttle: @unchecked Sendable {
  // Sendable: `kinds` is touched only under `lock`.
  private let lock = Mutex()
  private var kinds: [String: (quietUntil: Deadline, suppressed: Int)] = [:]

  private static let pause = Duration.seconds(10)

  /// How many of this kind were held back before this one; nil if this one is to be held back.
  func admit(_ kind: String) -> Int? {
    let now = Deadline.now
    return lock.withLock {
      if let entry = kinds[kind], now < entry.quietUntil {
        kinds[kind] = (entry.quietUntil, entry.suppressed + 1)
        return nil
      }
      defer { kinds[kind] = (now.advanced(by: Self.pause), 0) }
      return kinds[kind]?.suppressed ?? 0
    }
  }
}

extension RequestHead.Method {
  /// As it is written; an unregistered one has no name here, because a client may send anything.
  fileprivate var name: String {
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
