import Glibc

/// A range of IP addresses in CIDR notation (RFC 4632): `10.0.0.0/8`, `2001:db8::/32`, or one address alone.
///
/// IPv4 lives in IPv6's `::ffff:0:0/96` (RFC 4291 §2.5.5.2), so that an IPv4 peer of a dual-stack listener matches.
public struct AddressRange: Sendable, Hashable, CustomStringConvertible {
  /// The first address; its bits beyond ``prefixLength`` are zero.
  public let base: UInt128
  /// How many leading bits count, 0 to 128; 96 more than written for IPv4.
  public let prefixLength: Int
  /// As it was written.
  public let description: String

  /// The range that `text` names, or nil if it is none or has bits set beyond its prefix.
  public init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let base = Self.address(String(first)) else { return nil }
    let width = first.utf8.contains(UInt8(ascii: ":")) ? 128 : 32
    var length = width
    if parts.count == 2 {
      guard let written = Self.prefixLength(parts[1]), written <= width else { return nil }
      length = written
    }
    prefixLength = length + 128 - width
    self.base = base
    description = text
    guard base & ~Self.mask(prefixLength) == 0 else { return nil }
  }

  /// Whether `address`, in the form that ``address(_:)`` gives, lies within.
  public func contains(_ address: UInt128) -> Bool {
    address & Self.mask(prefixLength) == base
  }

  /// The 128 bits of an IPv6 address, or of an IPv4 address mapped into IPv6; nil if `text` is neither.
  public static func address(_ text: String) -> UInt128? {
    // inet_pton reads as far as a NUL.
    guard !text.utf8.contains(0) else { return nil }
    var v4 = in_addr()
    if unsafe inet_pton(AF_INET, text, &v4) == 1 { return 0xFFFF_0000_0000 | UInt128(UInt32(bigEndian: v4.s_addr)) }
    var v6 = in6_addr()
    guard unsafe inet_pton(AF_INET6, text, &v6) == 1 else { return nil }
    return unsafe withUnsafeBytes(of: v6) { bytes in unsafe bytes.reduce(0) { $0 << 8 | UInt128($1) } }
  }

  private static func prefixLength(_ text: Substring) -> Int? {
    guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
    return Int(text)
  }

  private static func mask(_ length: Int) -> UInt128 {
    // A shift by the full width gives 0 in Swift, which is the mask of length 0.
    UInt128.max << UInt128(128 - length)
  }
}
