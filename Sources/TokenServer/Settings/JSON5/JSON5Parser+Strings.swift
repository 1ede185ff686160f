extension JSON5Parser {
  /// The string whose quote stands here.
  mutating func string() throws(JSON5Failure) -> String {
    let start = position
    let quote = bytes[position]
    position += 1
    var content: [UInt8] = []
    while let byte = peek {
      position += 1
      switch byte {
      case quote: return String(decoding: content, as: UTF8.self)
      case UInt8(ascii: "\\"): try escape(into: &content)
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"):
        position = start
        throw failure("this string is not closed on its line; write \\n for a line end")
      default: content.append(byte)
      }
    }
    position = start
    throw failure("this string is never closed")
  }

  /// What stands after a backslash (JSON5 §5.1).
  private mutating func escape(into content: inout [UInt8]) throws(JSON5Failure) {
    guard let byte = peek else { return }
    position += 1
    switch byte {
    case UInt8(ascii: "n"): content.append(0x0A)
    case UInt8(ascii: "r"): content.append(0x0D)
    case UInt8(ascii: "t"): content.append(0x09)
    case UInt8(ascii: "b"): content.append(0x08)
    case UInt8(ascii: "f"): content.append(0x0C)
    case UInt8(ascii: "v"): content.append(0x0B)
    case UInt8(ascii: "x"): content.append(contentsOf: Self.utf8(UInt32(try hexadecimalDigits(2))))
    case UInt8(ascii: "u"): content.append(contentsOf: Self.utf8(try escapedCodePoint()))
    case UInt8(ascii: "\r"): _ = take("\n")  // a line continuation
    case UInt8(ascii: "\n"): break
    case UInt8(ascii: "0")...UInt8(ascii: "9"): throw failure("a backslash cannot stand before a digit")
    default: content.append(byte)
    }
  }

  /// The code point of `\uXXXX`, or of the two that make a surrogate pair.
  private mutating func escapedCodePoint() throws(JSON5Failure) -> UInt32 {
    let unit = UInt32(try hexadecimalDigits(4))
    guard (0xD800...0xDFFF).contains(unit) else { return unit }
    guard unit < 0xDC00, take("\\u") else { throw failure("half of a surrogate pair is missing") }
    let low = UInt32(try hexadecimalDigits(4))
    guard (0xDC00...0xDFFF).contains(low) else { throw failure("half of a surrogate pair is missing") }
    return 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
  }

  private mutating func hexadecimalDigits(_ count: Int) throws(JSON5Failure) -> UInt16 {
    let digits = bytes[position...].prefix(count)
    guard digits.count == count, digits.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }),
      let value = UInt16(String(decoding: digits, as: UTF8.self), radix: 16)
    else { throw failure("\(count) hexadecimal digits are missing") }
    position += count
    return value
  }

  private static func utf8(_ codePoint: UInt32) -> [UInt8] {
    UnicodeScalar(codePoint).map { Array(String($0).utf8) } ?? []
  }
}
