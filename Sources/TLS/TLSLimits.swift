/// What a peer may cost before a session gives it up.
///
/// OpenSSL bounds these by itself: a record (16 KiB and its overhead), a ClientHello (128 KiB), a certificate chain
/// (100 KB), 32 empty records in a row, 5 warning alerts in a row. The limits here are for what it leaves open.
public struct TLSLimits: Sendable, Equatable {
  /// Bytes that a handshake may take from the peer, both flights and record headers included.
  ///
  /// 64 KiB: a ClientHello with a post-quantum share is 2 KB, and a long client certificate chain 20 KB.
  public var handshakeBytes = 64 * 1024

  /// Messages of the TLS protocol itself after the handshake, with no application data between them.
  ///
  /// They are KeyUpdates (RFC 8446 §4.6.3) and, in TLS 1.2, attempts to renegotiate, each of which costs us an answer.
  /// 32: an honest peer sends one KeyUpdate in 2²⁴ records and never renegotiates.
  public var controlMessages = 32

  /// The defaults.
  public init() {}
}
