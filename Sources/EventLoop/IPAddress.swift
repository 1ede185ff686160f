import Glibc

/// An IPv4 or IPv6 address. An IPv4 address mapped into IPv6 (RFC 4291 §2.5.5.2) equals the IPv4 one, so that a
/// rule about one cannot be evaded by the other.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
  /// The 128 bits of an IPv6 address, an IPv4 one as `::ffff:a.b.c.d`.
  let bits: UInt128

  init(bits: UInt128) {
    self.bits = bits
  }

  /// The address that `text` writes (`192.0.2.1`, `2001:db8::1`, without brackets or zone), nil if it is none.
  public init?(_ text: String) {
    // inet_pton reads as far as a NUL.
    guard !text.utf8.contains(0) else { return nil }
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
    bits = 0xffff_0000_0000 | UInt128(UInt32(bigEndian: address.s_addr))
  }

  init(_ address: in6_addr) {
    bits = unsafe withUnsafeBytes(of: address) { bytes in unsafe bytes.reduce(0) { $0 << 8 | UInt128($1) } }
  }

  /// Whether this is an IPv4 address.
  public var isIPv4: Bool { bits >> 32 == 0xffff }

  /// Whether only this machine can be behind it: `127.0.0.0/8` or `::1`.
  public var isLoopback: Bool {
    isIPv4 ? UInt8(truncatingIfNeeded: bits >> 24) == 127 : bits == 1
  }

  /// What one customer of a provider holds at least: an IPv4 address, or the /64 of an IPv6 one.
  public var subscriber: IPAddress {
    isIPv4 ? self : IPAddress(bits: (bits >> 64) << 64)
  }

  /// As the kernel wants an IPv4 address; meaningless for others.
  var v4: in_addr { in_addr(s_addr: UInt32(truncatingIfNeeded: bits).bigEndian) }

  /// As the kernel wants an IPv6 address.
  var v6: in6_addr { unsafe unsafeBitCast(bits.bigEndian, to: in6_addr.self) }

  /// As `inet_ntop` writes it, IPv4 in dotted form.
  public var description: String {
    var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    let written = unsafe buffer.withUnsafeMutableBufferPointer { text in
      if isIPv4 {
        var address = v4
        return unsafe inet_ntop(AF_INET, &address, text.baseAddress, socklen_t(text.count)) != nil
      }
      var address = v6
      return unsafe inet_ntop(AF_INET6, &address, text.baseAddress, socklen_t(text.count)) != nil
    }
    guard written else { return "unknown" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
