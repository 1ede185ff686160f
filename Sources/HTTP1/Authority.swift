/// `uri-host [ ":" port ]` (RFC 9110 §7.2), as Host bears it and a request target.
///
/// The host is a `reg-name`, which an IPv4 address is too, or an IPv6 address in brackets. It is not empty. Userinfo,
/// a zone and `IPvFuture`, of which no version is defined, are refused. A port after the colon has up to five digits
/// and is at most 65535; it may be missing after the colon (RFC 3986 §3.2.3).
struct Authority {
  /// The digits of the port; nil if there are none.
  let port: Range<Int>?

  /// Nil if the bytes in `range` are something else.
  init?(_ range: Range<Int>, in bytes: Span<UInt8>) {
    guard let hostEnd = Self.hostEnd(in: range, of: bytes) else { return nil }
    if hostEnd == range.upperBound {
      port = nil
      return
    }
    guard bytes[hostEnd] == .colon else { return nil }
    let digits = hostEnd &+ 1..<range.upperBound
    guard digits.isEmpty || (digits.count <= 5 && (bytes.decimal(in: digits) ?? .max) <= 65535) else { return nil }
    port = digits.isEmpty ? nil : digits
  }

  /// Where the host at the start of `range` ends.
  private static func hostEnd(in range: Range<Int>, of bytes: Span<UInt8>) -> Int? {
    guard !range.isEmpty else { return nil }
    if bytes[range.lowerBound] == .leftBracket {
      guard
        let bracket = bytes.firstIndex(of: .rightBracket, in: range),
        IPv6Address.isValid(range.lowerBound &+ 1..<bracket, in: bytes)
      else { return nil }
      return bracket &+ 1
    }
    return registeredNameEnd(in: range, of: bytes)
  }

  /// Where the `reg-name` at the start of `range` ends (RFC 3986 §3.2.2): at the colon or at the end, not empty.
  private static func registeredNameEnd(in range: Range<Int>, of bytes: Span<UInt8>) -> Int? {
    var index = range.lowerBound
    while index < range.upperBound, bytes[index] != .colon {
      guard ByteSet.registeredName.contains(bytes[index]) else { return nil }
      if bytes[index] == .percentSign {
        guard
          range.upperBound &- index >= 3, let high = bytes[index &+ 1].hexadecimalDigit,
          let low = bytes[index &+ 2].hexadecimalDigit, high | low != 0
        else { return nil }
        index &+= 2
      }
      index &+= 1
    }
    return index > range.lowerBound ? index : nil
  }
}
