/// A place in a field value that is read from left to right (RFC 9110 §5.6). The value itself comes along with each
/// call, so that nothing is copied.
struct FieldScanner {
  private(set) var index = 0

  /// Whether all has been read.
  func isAtEnd(in bytes: Span<UInt8>) -> Bool { index >= bytes.count }

  /// Passes one byte.
  mutating func advance() { index += 1 }

  /// Passes SP and HTAB.
  mutating func skipWhitespace(in bytes: Span<UInt8>) {
    while index < bytes.count, bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
  }

  /// Passes `byte` if it stands here.
  mutating func take(_ byte: Unicode.Scalar, in bytes: Span<UInt8>) -> Bool {
    guard index < bytes.count, bytes[index] == UInt8(ascii: byte) else { return false }
    index += 1
    return true
  }

  /// Passes a token (RFC 9110 §5.6.2), which is empty if none stands here.
  mutating func token(in bytes: Span<UInt8>) -> Range<Int> {
    let start = index
    while index < bytes.count, Self.isTokenByte(bytes[index]) { index += 1 }
    return start..<index
  }

  /// Passes a quoted string (RFC 9110 §5.6.4) that begins here. The range is that between the quotes, quoted pairs as
  /// they stand; nil if the string does not end.
  mutating func quotedString(in bytes: Span<UInt8>) -> Range<Int>? {
    index += 1
    let start = index
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "\""):
        index += 1
        return start..<index - 1
      case UInt8(ascii: "\\"):
        index += 2
      default:
        index += 1
      }
    }
    index = bytes.count
    return nil
  }

  /// What stood between an element and the separator behind it.
  enum Remainder {
    case nothing, garbage, unterminatedString
  }

  /// Passes everything up to the next `separator` outside of quoted strings, and the separator.
  mutating func skip(past separator: Unicode.Scalar, in bytes: Span<UInt8>) -> Remainder {
    skipWhitespace(in: bytes)
    var remainder = Remainder.nothing
    while index < bytes.count {
      if take(separator, in: bytes) { return remainder }
      remainder = .garbage
      if bytes[index] != UInt8(ascii: "\"") {
        index += 1
      } else if quotedString(in: bytes) == nil {
        return .unterminatedString
      }
    }
    return remainder
  }

  private static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "A")...UInt8(ascii: "Z"):
      true
    case UInt8(ascii: "!"), UInt8(ascii: "#")...UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"),
      UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "^")...UInt8(ascii: "`"), UInt8(ascii: "|"),
      UInt8(ascii: "~"):
      true
    default: false
    }
  }
}
