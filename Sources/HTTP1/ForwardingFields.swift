/// Fields by which a proxy describes the request that it forwards. A client can write them as well, so they count only
/// if the peer is trusted.
///
/// The parser notes them while it reads a head, so that a request without them costs no look-up.
public struct ForwardingFields: OptionSet, Sendable, Equatable {
  /// A set of bits.
  public let rawValue: UInt8

  /// A set of bits.
  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  /// `Forwarded` (RFC 7239).
  public static let forwarded = ForwardingFields(rawValue: 1)
  /// `X-Forwarded-For`.
  public static let forwardedFor = ForwardingFields(rawValue: 2)
  /// `X-Request-ID`.
  public static let requestID = ForwardingFields(rawValue: 4)
}
