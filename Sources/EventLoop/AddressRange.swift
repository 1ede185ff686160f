/// A range of IP addresses in CIDR notation (RFC 4632, RFC 4291 §2.3): `10.0.0.0/8`, `2001:db8::/32`, or one address
/// alone.
public struct AddressRange: Sendable, Hashable, CustomStringConvertible {
  /// As it was written.
  public let description: String

  private let first: IPAddress
  /// How many leading bits of 128 count.
  private let prefixLength: Int

  /// The range that `text` writes; nil if it writes none, or has bits set beyond its prefix.
  public init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let address = parts.first, let first = IPAddress(String(address)) else { return nil }
    let width = address.utf8.contains(UInt8(ascii: ":")) ? 128 : 32
    var length = width
    if parts.count == 2 {
      guard parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let written = Int(parts[1]), written <= width
      else { return nil }
      length = written
    }
    self.first = first
    prefixLength = length + 128 - width
    description = text
    guard first.bits & ~mask == 0 else { return nil }
  }

  /// Whether `address` lies within.
  public func contains(_ address: IPAddress) -> Bool {
    address.bits & mask == first.bits
  }

  private var mask: UInt128 {
    // A shift by the full width gives 0 in Swift, which is the mask of length 0.
    UInt128.max << UInt128(128 - prefixLength)
  }
}
