import Bytes

/// A strict reader of one JSON text (RFC 8259). The input bounds its memory, and `maximumDepth` bounds its recursion.
public struct JSONReader {
  /// The deepest nesting that the reader accepts.
  public static let maximumDepth = 16

  private let bytes: [UInt8]
  private var index = 0
  private var depth = 0
  /// The number of values that may still follow.
  private var rest: Int

  /// Returns the value; nil for bytes that are not one JSON text in UTF-8, or more values, which cost more than bytes.
  public static func read(_ bytes: [UInt8], values limit: Int = .max) -> JSONValue? {
    var reader = JSONReader(bytes: bytes, limit: limit)
    guard let value = reader.value() else { return nil }
    reader.skipSpace()
    return reader.index == bytes.count ? value : nil
  }

  /// Returns where the reader stops in a text that it does not read, or behind the value: line and column, from 1.
  public static func stop(in bytes: [UInt8]) -> String {
    var reader = JSONReader(bytes: bytes, limit: .max)
    if reader.value() != nil { reader.skipSpace() }
    let before = bytes[..<reader.index]
    let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    return "line \(before.count { $0 == UInt8(ascii: "\n") } + 1), column \(reader.index - start + 1)"
  }

  private init(bytes: [UInt8], limit: Int) { (self.bytes, rest) = (bytes, limit) }

  private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

  private mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { index += 1 }
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard next == UInt8(ascii: character) else { return false }
    index += 1
    return true
  }

  private mutating func take(word: String) -> Bool {
    guard bytes[index...].starts(with: word.utf8) else { return false }
    index += word.utf8.count
    return true
  }

  private mutating func value() -> JSONValue? {
    guard rest > 0 else { return nil }
    rest -= 1
    skipSpace()
    switch next {
    case UInt8(ascii: "{"): return nested { $0.object() }
    case UInt8(ascii: "["): return nested { $0.array() }
    case UInt8(ascii: "\""): return string().map { .string($0) }
    case UInt8(ascii: "t"): return take(word: "true") ? .bool(true) : nil
    case UInt8(ascii: "f"): return take(word: "false") ? .bool(false) : nil
    case UInt8(ascii: "n"): return take(word: "null") ? .null : nil
    default: return number()
    }
  }

  private mutating func nested(_ body: (inout JSONReader) -> JSONValue?) -> JSONValue? {
    guard depth < Self.maximumDepth else { return nil }
    depth += 1
    index += 1
    defer { depth -= 1 }
    return body(&self)
  }

  private mutating func object() -> JSONValue? {
    var members: [JSONValue.Member] = []
    skipSpace()
    if take("}") { return .object(members) }
    repeat {
      skipSpace()
      guard let name = string() else { return nil }
      skipSpace()
      guard take(":"), let value = value() else { return nil }
      members.append(.init(name: name, value: value))
      skipSpace()
    } while take(",")
    return take("}") ? .object(members) : nil
  }

  private mutating func array() -> JSONValue? {
    var elements: [JSONValue] = []
    skipSpace()
    if take("]") { return .array(elements) }
    repeat {
      guard let element = value() else { return nil }
      elements.append(element)
      skipSpace()
    } while take(",")
    return take("]") ? .array(elements) : nil
  }

  private mutating func number() -> JSONValue? {
    let start = index
    _ = take("-")
    // No digit may follow a leading zero (RFC 8259 §6).
    if !take("0") { guard digits() else { return nil } }
    if take(".") { guard digits() else { return nil } }
    if take("e") || take("E") {
      if !take("+") { _ = take("-") }
      guard digits() else { return nil }
    }
    return .number(String(decoding: bytes[start..<index], as: UTF8.self))
  }

  private mutating func digits() -> Bool {
    let start = index
    while let byte = next, (0x30...0x39).contains(byte) { index += 1 }
    return index > start
  }

  private mutating func string() -> ByteString? {
    guard take("\"") else { return nil }
    var text: [UInt8] = []
    while true {
      let start = index
      while index < bytes.count, bytes[index] != UInt8(ascii: "\""), bytes[index] != UInt8(ascii: "\\") {
        guard bytes[index] >= 0x20 else { return nil }
        index += 1
      }
      guard index < bytes.count else { return nil }
      text += bytes[start..<index]
      index += 1
      guard bytes[index - 1] == UInt8(ascii: "\\") else { break }
      guard let scalar = escape() else { return nil }
      for byte in UTF8.encode(scalar) ?? .init() { text.append(byte) }
    }
    guard (try? UTF8Span(validating: text.span)) != nil else { return nil }
    return ByteString(text)
  }

  private mutating func escape() -> Unicode.Scalar? {
    guard let byte = next else { return nil }
    index += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): return unicodeEscape()
    default: return nil
    }
  }

  /// Parses the scalar of `\uXXXX`, or of a surrogate pair (RFC 8259 §7). Returns nil for a lone surrogate.
  private mutating func unicodeEscape() -> Unicode.Scalar? {
    guard let first = hexadecimal() else { return nil }
    guard (0xD800...0xDBFF).contains(first) else { return Unicode.Scalar(first) }
    guard take("\\"), take("u"), let second = hexadecimal(), (0xDC00...0xDFFF).contains(second) else { return nil }
    return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
  }

  private mutating func hexadecimal() -> UInt32? {
    guard bytes.count - index >= 4 else { return nil }
    var value: UInt32 = 0
    for _ in 0..<4 {
      guard let digit = bytes[index].hexadecimalDigit else { return nil }
      value = value << 4 | UInt32(digit)
      index += 1
    }
    return value
  }
}
