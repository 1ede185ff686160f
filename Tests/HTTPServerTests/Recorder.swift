import HTTPServer
import Locks
import TLS

/// Remembers what a server tells its observer.
final class Recorder: ExchangeObserver, @unchecked Sendable {
  // Sendable: everything is read and written under `mutex`.
  private let mutex = Mutex()
  private var completed: [(status: Int, route: String?, duration: Duration)] = []
  private var notices: [ServerNotice] = []

  let recordsExchanges = true

  func completed(_ exchange: borrowing Exchange) {
    let route = exchange.route.map { "\($0)" }
    let entry = (exchange.status, route, exchange.duration)
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

  /// Causes of the TLS sessions that failed so far.
  var tlsFailures: [TLSError.Cause] {
    mutex.withLock {
      notices.compactMap { if case .tlsFailed(_, let error) = $0 { error.cause } else { nil } }
    }
  }
}
