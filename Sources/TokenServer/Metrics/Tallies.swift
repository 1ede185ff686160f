import Glibc
import HTTPMessages
import HTTPServer
import TLS

/// The failures of connections, and the forwarding fields and PROXY headers that the server did not accept.
struct ConnectionTally: Sendable {
  var refused = 0
  var refusedPerAddress = 0
  var tlsFailures: [TLSFailure: Int] = [:]
  var recycled = 0
  var acceptPauses = 0
  var proxyHeadersRefused = 0
  var forwardingIgnored = 0
  /// What the server lacked when it refused connections and requests.
  var shortages: [Shortage: Int] = [:]
  var http2Misconduct: [HTTP2Misconduct: Int] = [:]

  mutating func count(_ notice: ServerNotice) {
    switch notice {
    case .acceptPaused: acceptPauses += 1
    case .connectionRecycled: recycled += 1
    case .tooManyConnections:
      refused += 1
      shortages[.connections, default: 0] += 1
    case .tooManyConnectionsFromAddress:
      refusedPerAddress += 1
      shortages[.connectionsOfAddress, default: 0] += 1
    case .tooLittleMemoryForConnection: shortages[.memory, default: 0] += 1
    case .handshakeShed, .connectionShed: shortages[.processorTime, default: 0] += 1
    case .memoryRefused, .requestShed: break
    case .tlsFailed(_, let error): tlsFailures[error.failure, default: 0] += 1
    case .proxyHeaderRefused: proxyHeadersRefused += 1
    case .http2Misconduct(_, let misconduct): http2Misconduct[misconduct, default: 0] += 1
    case .forwardingIgnored, .forwardingContradictory: forwardingIgnored += 1
    }
  }
}

/// The number of reloads, and the result of the last one.
struct ReloadTally: Sendable {
  var reloads = 0
  var refused = 0
  /// Why the last reload was refused; nil if it was not.
  var refusal: String?
  /// The settings that the last successful reload found changed, and that need a restart.
  var needingRestart: [String] = []
  /// When the settings in use were read, in seconds since 1970: at the last successful reload, or at the start.
  var lastSuccess = Glibc.time(nil)

  /// - Parameter settings: The paths of the changed settings that need a restart.
  mutating func succeed(needingRestart settings: [String]) {
    reloads += 1
    (refusal, needingRestart, lastSuccess) = (nil, settings, Glibc.time(nil))
  }

  mutating func refuse(_ reason: String) {
    reloads += 1
    refused += 1
    refusal = reason
  }
}
