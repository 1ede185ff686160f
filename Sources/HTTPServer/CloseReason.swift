import HTTPMessages
import TLS

/// Why a connection ends.
enum CloseReason: Error, Equatable {
  /// The peer is gone or does not read, so nothing more is sent.
  case gone
  /// The last response says that it is the last. `lingers` if the peer may still be sending.
  case finished(lingers: Bool)
  /// A response has broken off: the peer must not treat it as whole.
  case brokenOff
  /// A request is refused in a way that leaves the connection's bytes without meaning.
  case refused(ErrorResponse)
  /// The TLS session is over; what is left to send of it is in `outgoing`.
  case failedTLS(TLSError)
}
