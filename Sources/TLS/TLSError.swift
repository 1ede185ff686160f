/// Why a TLS context could not be made, or why a session had to end.
///
/// It is safe to log whole: it holds file names and OpenSSL's reason, never a byte of a key or of what was encrypted.
public struct TLSError: Error, Sendable, Equatable {
  /// What went wrong, in the kinds that a caller may handle differently.
  public enum Cause: Sendable, Equatable {
    /// A certificate, key or CA file, or a setting, cannot be used. The operator has to fix the configuration.
    case configuration
    /// The peer spoke plain HTTP. Nothing was sent: it would understand `400` in plain HTTP, but no TLS alert.
    case plaintextHTTP
    /// The peer sent a fatal alert, for example because it does not trust our certificate (RFC 8446 §6.2).
    case alertFromPeer
    /// The peer broke the protocol, or asked for what is not on offer. The alert for it is in `outgoing`.
    case violationByPeer
    /// The peer's client certificate does not hold up against the client CA. The alert for it is in `outgoing`.
    case certificateOfPeer
    /// The peer exceeded one of ``TLSLimits``.
    case limitExceeded
    /// OpenSSL failed because memory ran out or because of an error in this program.
    case internalFailure
  }

  /// What went wrong, for programs.
  public let cause: Cause

  /// What went wrong, for people: one sentence, or two if there is a fix to name.
  public let message: String

  /// OpenSSL's own words for it, if it was OpenSSL that refused.
  public let reason: String?

  /// What went wrong, in the kinds that a server's operator tells apart.
  public let failure: TLSFailure

  /// Whether the peer is to blame, so that it is worth no more than a line at `debug` level.
  public var isFaultOfPeer: Bool {
    switch cause {
    case .configuration, .internalFailure: false
    case .plaintextHTTP, .alertFromPeer, .violationByPeer, .certificateOfPeer, .limitExceeded: true
    }
  }

  init(_ cause: Cause, _ message: String, reason: String? = nil, failure: TLSFailure? = nil) {
    self.cause = cause
    self.failure = failure ?? cause.failure
    self.message = message
    self.reason = reason
  }
}

extension TLSError: CustomStringConvertible {
  /// The message, followed by OpenSSL's own words where there are any.
  public var description: String {
    reason.map { "\(message) (OpenSSL: \($0))" } ?? message
  }
}
