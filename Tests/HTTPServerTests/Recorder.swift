import EventLoop
import HTTPMessages
import HTTPServer
import HTTPTypes
import Locks
import TLS

/// Records what a server reports to its observer.
final class Recorder: ExchangeObserver, Sendable {
  private let completed = Locked<[(status: Int, route: String?, path: String, duration: Duration, client: String)]>([])
  private let notices = Locked<[ServerNotice]>([])

  let recordedPathBytes = 8

  func completed(_ request: Request, _ response: Response, bytes: Int) {
    let route = request.route.map { "\($0)" }
    let path = String(decoding: request.recordedPath, as: UTF8.self)
    let entry = (response.status.code, route, path, request.duration, request.client.name)
    completed.withLock { $0.append(entry) }
  }

  func noticed(_ notice: ServerNotice) {
    notices.withLock { $0.append(notice) }
  }

  /// The status codes of all responses so far, in order.
  var statuses: [Int] { completed.withLock { $0.map(\.status) } }

  /// The routes of all responses so far.
  var routes: [String?] { completed.withLock { $0.map(\.route) } }

  /// The recorded paths of all responses so far.
  var paths: [String] { completed.withLock { $0.map(\.path) } }

  /// The durations of all responses so far.
  var durations: [Duration] { completed.withLock { $0.map(\.duration) } }

  /// The client addresses of all responses so far.
  var clients: [String] { completed.withLock { $0.map(\.client) } }

  /// The peers whose forwarding fields were ignored so far.
  var ignoredForwarding: (untrusted: [SocketAddress], contradictory: [SocketAddress]) {
    notices.withLock { notices in
      (
        notices.compactMap { if case .forwardingIgnored(let peer) = $0 { peer } else { nil } },
        notices.compactMap { if case .forwardingContradictory(let peer) = $0 { peer } else { nil } }
      )
    }
  }

  /// The number of refused handshakes, connections and requests because of too much work so far.
  var shed: (handshakes: Int, connections: Int, requests: Int) {
    notices.withLock { notices in
      (
        notices.count { if case .handshakeShed = $0 { true } else { false } },
        notices.count { if case .connectionShed = $0 { true } else { false } },
        notices.count { if case .requestShed = $0 { true } else { false } }
      )
    }
  }

  /// The clients of requests that the server refused because of too much work so far.
  var shedClients: [String] {
    notices.withLock { notices in
      notices.compactMap { if case .requestShed(let client) = $0 { client } else { nil } }
    }
  }

  /// What clients of HTTP/2 have done wrong so far.
  var http2Misconduct: [HTTP2Misconduct] {
    notices.withLock { notices in
      notices.compactMap { if case .http2Misconduct(_, let misconduct) = $0 { misconduct } else { nil } }
    }
  }

  /// The errors of PROXY headers of trusted proxies so far.
  var refusedProxyHeaders: [ProxyHeaderError] {
    notices.withLock { notices in
      notices.compactMap { if case .proxyHeaderRefused(_, let error) = $0 { error } else { nil } }
    }
  }

  /// The causes of failed TLS sessions so far.
  var tlsFailures: [TLSError.Cause] {
    notices.withLock { notices in
      notices.compactMap { if case .tlsFailed(_, let error) = $0 { error.cause } else { nil } }
    }
  }
}
