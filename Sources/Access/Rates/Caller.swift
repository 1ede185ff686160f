public import Bytes

/// Whom a rate counts, among those who use one client.
public enum Caller: Sendable, Hashable {
  /// An address: an IPv4 address, an IPv6 network of /64, or `unix`.
  case address(String)
  /// The `sub` of a JWT (RFC 7519 §4.1.2), wherever its bearer is.
  case subject(ByteString)
}

extension Caller {
  /// The address or the subject, for the shares of a quota.
  public var bytes: ByteString {
    switch self {
    case .address(let text): ByteString(text)
    case .subject(let bytes): bytes
    }
  }
}
