public import Bytes

/// What a JWT says whose signature and claims are in order.
public struct VerifiedJWT: Sendable, Equatable {
  /// Its `sub` (RFC 7519 §4.1.2): whom it is about, 1 to 255 bytes; nil if it says nothing of it.
  public let subject: ByteString?
  /// Its `exp` in whole seconds since 1970. It is taken for a minute longer, as clocks differ.
  public let expiresAt: Int
  /// The `kid` of the key that signed it, if it named one.
  public let keyID: ByteString?
}
