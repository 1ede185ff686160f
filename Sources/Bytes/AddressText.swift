import Glibc

/// IP addresses as text, by the C library, which accepts what a URI may contain (RFC 3986 §3.2.2) and nothing else.
extension Span<UInt8> {
  /// The IPv4 address in these bytes, four decimal numbers without leading zeros, as 32 bits; nil if they are none.
  public var ipv4Address: UInt32? {
    var address = in_addr()
    guard unsafe withCString({ unsafe inet_pton(AF_INET, $0, &address) }) == 1 else { return nil }
    return UInt32(bigEndian: address.s_addr)
  }

  /// The IPv6 address in these bytes, without brackets or zone, as 128 bits; nil if they are none.
  public var ipv6Address: UInt128? {
    var address = in6_addr()
    guard unsafe withCString({ unsafe inet_pton(AF_INET6, $0, &address) }) == 1 else { return nil }
    // Safe: both types have 128 bits, and each pattern is a number.
    return UInt128(bigEndian: unsafe unsafeBitCast(address, to: UInt128.self))
  }

  /// Calls `body` with the bytes and a NUL. Returns 0 if no address is so long, or for a NUL, which ends a C string.
  private func withCString(_ body: (UnsafePointer<CChar>?) -> Int32) -> Int32 {
    // INET6_ADDRSTRLEN: the longest IPv6 address, which ends with an IPv4 address, and the NUL.
    var characters = InlineArray<46, CChar>(repeating: 0)
    guard count < characters.count else { return 0 }
    for index in indices {
      guard self[index] != 0 else { return 0 }
      characters[index] = CChar(truncatingIfNeeded: self[index])
    }
    return unsafe characters.span.withUnsafeBufferPointer { unsafe body($0.baseAddress) }
  }
}

extension String {
  /// Creates the text of the IPv6 address of these bits as inet_ntop writes it.
  public init(ipv6 bits: UInt128) {
    // Safe: both types have 128 bits, and each pattern is an address.
    var address = unsafe unsafeBitCast(bits.bigEndian, to: in6_addr.self)
    var characters = InlineArray<46, CChar>(repeating: 0)
    var span = characters.mutableSpan
    self = unsafe span.withUnsafeMutableBufferPointer { characters in
      let text = unsafe inet_ntop(AF_INET6, &address, characters.baseAddress, socklen_t(characters.count))
      return unsafe text.map { unsafe String(cString: $0) } ?? "unknown"
    }
  }
}
