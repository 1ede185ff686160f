import Glibc

/// An IPv4 or IPv6 address. An IPv4 address mapped into IPv6 (RFC 4291 §2.5.5.2) equals the IPv4 one, so that a
/// rule about one cannot be evaded by the other.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
  /// The 128 bits in network order, IPv4 as `::ffff:a.b.c.d`.
  let high: UInt64
  let low: UInt64

  init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// The address that `text` writes (`192.0.2.1`, `2001:db8::1`, without brackets or zone), nil if it is none.
  public init?(_ text: String) {
    var v4 = in_addr()
    if unsafe inet_pton(AF_INET, text, &v4) == 1 {
      self.init(v4)
      return
    }
    var v6 = in6_addr()
    guard unsafe inet_pton(AF_INET6, text, &v6) == 1 else { return nil }
    self.init(v6)
  }

  init(_ address: in_addr) {
    self.init(high: 0, low: 0xffff_0000_0000 | UInt64(UInt32(bigEndian: address.s_addr)))
  }

  init(_ address: in6_addr) {
    let (high, low) = unsafe withUnsafeBytes(of: address) { bytes in
      unsafe (bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }
    self.init(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
  }

  /// Whether this is an IPv4 address.
  public var isIPv4: Bool { high == 0 && low >> 32 == 0xffff }

  /// Whether only this machine can be behind it: `127.0.0.0/8` or `::1`.
  public var isLoopback: Bool {
    isIPv4 ? UInt8(truncatingIfNeeded: low >> 24) == 127 : high == 0 && low == 1
  }

  /// What one customer of a provider holds at least: an IPv4 address, or the /64 of an IPv6 one.
  public var subscriber: IPAddress {
    isIPv4 ? self : IPAddress(high: high, low: 0)
  }

  /// As `inet_ntop` writes it, IPv4 in dotted form.
  public var description: String {
    var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    let written = unsafe buffer.withUnsafeMutableBufferPointer { text in
      if isIPv4 {
        var address = in_addr(s_addr: UInt32(truncatingIfNeeded: low).bigEndian)
        return unsafe inet_ntop(AF_INET, &address, text.baseAddress, socklen_t(text.count)) != nil
      }
      var address = unsafe unsafeBitCast((high.bigEndian, low.bigEndian), to: in6_addr.self)
      return unsafe inet_ntop(AF_INET6, &address, text.baseAddress, socklen_t(text.count)) != nil
    }
    guard written else { return "unknown" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
