import HTTPServer
import Locks
import TLS

/// Counts what is wrong with connections, and with what peers say about themselves.
final class ConnectionTally: @unchecked Sendable {
  // Sendable: `total` is touched only under `lock`.
  private let lock = Mutex()
  private var total = Counts()

  /// Since the start.
  struct Counts: Sendable {
    var refused = 0
    var refusedPerAddress = 0
    var tlsFailures: [TLSFailure: Int] = [:]
    var acceptPauses = 0
    var proxyHeadersRefused = 0
    var forwardingIgnored = 0
  }

  func count(_ notice: ServerNotice) {
    lock.withLock {
      switch notice {
      case .acceptPaused: total.acceptPauses += 1
      case .tooManyConnections: total.refused += 1
      case .tooManyConnectionsFromAddress: total.refusedPerAddress += 1
      case .memoryRefused: break
      case .tlsFailed(_, let error): total.tlsFailures[error.failure, default: 0] += 1
      case .proxyHeaderRefused: total.proxyHeadersRefused += 1
      case .forwardingIgnored, .forwardingContradictory: total.forwardingIgnored += 1
      }
    }
  }

  var counts: Counts { lock.withLock { total } }
}
