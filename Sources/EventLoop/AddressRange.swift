/// A block of addresses in CIDR notation (RFC 4632, RFC 4291 §2.3): `10.0.0.0/8`, `2001:db8::/32`; a lone address is
/// a block of one.
public struct AddressRange: Sendable, Hashable, CustomStringConvertible {
  private let network: IPAddress
  private let prefix: Int

  /// The block that `text` writes; nil if it writes none, or if bits are set beyond its prefix.
  public init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let network = parts.first.flatMap({ IPAddress(String($0)) }) else { return nil }
    let width = network.isIPv4 ? 32 : 128
    var length = width
    if parts.count == 2 {
      let digits = parts[1]
      guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(digits), number <= width
      else { return nil }
      length = number
    }
    self.network = network
    self.prefix = length + 128 - width
    guard network.masked(to: prefix) == network else { return nil }
  }

  /// Whether `address` is in the block.
  public func contains(_ address: IPAddress) -> Bool {
    address.masked(to: prefix) == network
  }

  /// `10.0.0.0/8`.
  public var description: String { "\(network)/\(network.isIPv4 ? prefix - 96 : prefix)" }
}

extension IPAddress {
  /// The address with all but its first `prefix` bits (of 128) cleared.
  fileprivate func masked(to prefix: Int) -> IPAddress {
    // A shift by 64 or more yields 0 in Swift: no case for the ends.
    let high = prefix >= 64 ? self.high : self.high & ~(UInt64.max >> UInt64(prefix))
    let low = prefix <= 64 ? 0 : self.low & ~(UInt64.max >> UInt64(prefix - 64))
    return IPAddress(high: high, low: low)
  }
}
