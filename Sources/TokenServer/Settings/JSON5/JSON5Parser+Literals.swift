extension JSON5Parser {
  /// `true`, `false`, `null` or a number.
  mutating func literal() throws(JSON5Failure) -> JSON5Value {
    let start = position
    let text = literalText()
    switch text {
    case "true": return .bool(true)
    case "false": return .bool(false)
    case "null": return .null
    default: break
    }
    if let number = Self.number(text) { return number }
    position = start
    throw failure(text.isEmpty ? "a value is missing" : "this is no value; text must stand in quotes")
  }

  private mutating func literalText() -> String {
    let start = position
    while true {
      if let byte = peek, [UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: ".")].contains(byte) {
        position += 1
      } else if word().isEmpty {
        return String(decoding: bytes[start..<position], as: UTF8.self)
      }
    }
  }

  /// The number that `text` is in JSON5, or nil.
  private static func number(_ text: String) -> JSON5Value? {
    let negative = text.hasPrefix("-")
    let magnitude = negative || text.hasPrefix("+") ? text.dropFirst() : text[...]
    if magnitude == "Infinity" || magnitude == "NaN" { return .number(text) }
    guard let first = magnitude.utf8.first,
      first == UInt8(ascii: ".") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first)
    else { return nil }
    if magnitude.hasPrefix("0x") || magnitude.hasPrefix("0X") {
      return hexadecimal(magnitude.dropFirst(2), negative: negative)
    }
    // JSON5 has no octal, so a leading zero would be read differently by different people.
    if magnitude.utf8.count > 1, magnitude.utf8.allSatisfy({ $0 != UInt8(ascii: ".") }), first == UInt8(ascii: "0") {
      return nil
    }
    if let integer = Int(text) { return .integer(integer) }
    return Double(text.hasSuffix(".") ? text + "0" : text).map { _ in .number(text) }
  }

  private static func hexadecimal(_ digits: Substring, negative: Bool) -> JSON5Value? {
    guard let first = digits.first, first.isHexDigit else { return nil }
    return Int((negative ? "-" : "") + digits, radix: 16).map { .integer($0) }
  }
}
