import EventLoop
import HTTPServer
import Locks
import TLS

/// Remembers what a server tells its observer.
final class Recorder: ExchangeObserver, @unchecked Sendable {
  // Sendable: everything is read and written under `mutex`.
  private let mutex = Mutex()
  private var completed: [(status: Int, route: String?, duration: Duration, client: String)] = []
  private var notices: [ServerNotice] = []

  let recordsExchanges = true

  func completed(_ exchange: borrowing Exchange) {
    let route = exchange.route.map { "\($0)" }
    let entry = (exchange.status, route, exchange.duration, exchange.client)
    mutex.withLock { completed.append(entry) }
  }

  func noticed(_ notice: ServerNotice) {
    mutex.withLock { notices.append(notice) }
  }

  /// The status codes of all answers so far, in order.
  var statuses: [Int] { mutex.withLock { completed.map(\.status) } }

  /// The routes of all answers so far.
  var routes: [String?] { mutex.withLock { completed.map(\.route) } }

  /// What all answers so far took.
  var durations: [Duration] { mutex.withLock { completed.map(\.duration) } }

  /// Who asked for all answers so far.
  var clients: [String] { mutex.withLock { completed.map(\.client) } }

  /// How many requests had fields of a proxy's that did not count, so far.
  var ignoredForwarding: (untrusted: [SocketAddress], contradictory: [SocketAddress]) {
    mutex.withLock {
      (
        notices.compactMap { if case .forwardingIgnored(let peer) = $0 { peer } else { nil } },
        notices.compactMap { if case .forwardingContradictory(let peer) = $0 { peer } else { nil } }
      )
    }
  }

  /// Why connections of trusted proxies were closed for their PROXY header so far.
  var refusedProxyHeaders: [ProxyHeaderError] {
    mutex.withLock {
      notices.compactMap { if case .proxyHeaderRefused(_, let error) = $0 { error } else { nil } }
    }
  }

  /// Causes of the TLS sessions that failed so far.
  var tlsFailures: [TLSError.Cause] {
    mutex.withLock {
      notices.compactMap { if case .tlsFailed(_, let error) = $0 { error.cause } else { nil } }
    }
  }
}
