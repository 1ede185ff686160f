/// Fields by which a proxy tells of the request that it forwards. They are only as true as whoever sends them: a client
/// can write them as well.
///
/// Noted while a head is parsed, so that a request without them costs no look-up.
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
