import Bytes
import JSON

/// A parser of JSON5 (https://spec.json5.org). Numbers with a whole value become decimal.
///
/// `JSONDecoder` of FoundationEssentials reports no line of an invalid file, and of members with the same name it takes the
/// first without an error. An operator who fixes a configuration at night needs both errors.
///
/// The parser does not support escapes in member names without quotation marks.
struct JSON5Parser {
  /// The maximum nesting depth. No configuration needs more, and it bounds the recursion, so that the stack suffices.
  static let maximumDepth = 32
  private let bytes: [UInt8]
  private var position = 0

  private init(_ bytes: [UInt8]) {
    self.bytes = bytes
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }  // a byte order mark, as some editors leave
  }

  static func parse(_ bytes: [UInt8]) throws(JSON5Failure) -> JSONValue {
    var parser = JSON5Parser(bytes)
    // Validated without a string, which would be one more copy of a possible key.
    guard (try? UTF8Span(validating: bytes.span)) != nil else {
      throw JSON5Failure(line: 1, column: 1, problem: "the text is not UTF-8")
    }
    guard !parser.looksLikeYAML else {
      throw JSON5Failure(
        line: 1, column: 1,
        problem: "this looks like YAML; in JSON5, braces enclose members, commas separate them, and text is in "
          + "quotation marks, as in { musickit: { teamID: \"TEAM123456\" } }")
    }
    let value = try parser.value(depth: 0)
    try parser.skipSpace()
    guard parser.peek == nil else { throw parser.failure("there is text after the end of the value") }
    return value
  }

  static func parse(_ text: String) throws(JSON5Failure) -> JSONValue { try parse(Array(text.utf8)) }

  /// Whether the first line that is no comment is a name with a colon, not of a URL, without an object around it.
  private var looksLikeYAML: Bool {
    for line in bytes[position...].split(separator: UInt8(ascii: "\n"), maxSplits: 100) {
      let text = line.drop { $0 == 0x20 || $0 == 0x0D }
      if text.isEmpty || text.first == UInt8(ascii: "#") || text.starts(with: "---".utf8) { continue }
      let rest = text.drop { $0.isWordCharacter }
      let next = rest.dropFirst().first
      return rest.startIndex > text.startIndex && rest.first == UInt8(ascii: ":") && next != UInt8(ascii: "/")
    }
    return false
  }

  private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }
  private func isNext(_ text: String) -> Bool { bytes[position...].starts(with: text.utf8) }

  private mutating func take(_ text: String) -> Bool {
    guard isNext(text) else { return false }
    position += text.utf8.count
    return true
  }

  private mutating func take(while isPart: (UInt8) -> Bool) -> String {
    let start = position
    while let byte = peek, isPart(byte) { position += 1 }
    return String(decoding: bytes[start..<position], as: UTF8.self)
  }

  /// Returns a failure at the current position, or at an earlier one.
  private func failure(_ problem: String, at place: Int? = nil) -> JSON5Failure {
    let before = bytes[..<min(place ?? position, bytes.count)]
    let line = 1 + before.count { $0 == UInt8(ascii: "\n") }
    let lineStart = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    return JSON5Failure(line: line, column: before.count - lineStart + 1, problem: problem)
  }

  private mutating func value(depth: Int) throws(JSON5Failure) -> JSONValue {
    guard depth < Self.maximumDepth else { throw failure("lists and objects are nested too deeply") }
    try skipSpace()
    switch peek {
    case nil: throw failure("the text ends where a value should be")
    case UInt8(ascii: "{"): return .object(try object(depth: depth))
    case UInt8(ascii: "["):
      var elements: [JSONValue] = []
      try items(until: "]") { (parser) throws(JSON5Failure) in elements.append(try parser.value(depth: depth + 1)) }
      return .array(elements)
    case UInt8(ascii: "\""), UInt8(ascii: "'"): return .text(try string())
    default: return try literal()
    }
  }

  private mutating func object(depth: Int) throws(JSON5Failure) -> [JSONValue.Member] {
    var members: [JSONValue.Member] = []
    var names: Set<String> = []
    try items(until: "}") { (parser) throws(JSON5Failure) in
      let start = parser.position
      let name = try parser.memberName()
      guard names.insert(name).inserted else {
        throw parser.failure("the object already has a member \(quoted(name))", at: start)
      }
      try parser.skipSpace()
      guard parser.take(":") else { throw parser.failure("a \":\" is missing after the member's name") }
      members.append(.init(name: ByteString(name), value: try parser.value(depth: depth + 1)))
    }
    return members
  }

  /// Consumes a bracket, the items behind it, and the closing bracket. A comma may follow the last item.
  private mutating func items(
    until close: String, _ item: (inout JSON5Parser) throws(JSON5Failure) -> Void
  ) throws(JSON5Failure) {
    position += 1
    while true {
      try skipSpace()
      if take(close) { return }
      try item(&self)
      try skipSpace()
      guard take(",") || isNext(close) else { throw failure("a \",\" or \"\(close)\" is missing") }
    }
  }

  private mutating func memberName() throws(JSON5Failure) -> String {
    if peek == UInt8(ascii: "\"") || peek == UInt8(ascii: "'") { return try string() }
    try rejectCurlyQuote()
    let name = take(while: \.isWordCharacter)
    guard let first = name.utf8.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
      throw failure("a member's name is missing")
    }
    return name
  }

  private func rejectCurlyQuote() throws(JSON5Failure) {
    guard ["\u{201C}", "\u{201D}", "\u{201E}", "\u{2018}", "\u{2019}"].contains(where: isNext) else { return }
    throw failure("this is a curly quotation mark, as word processors and web pages write it; use the straight one, \"")
  }

  /// Parses `true`, `false`, `null` or a number.
  private mutating func literal() throws(JSON5Failure) -> JSONValue {
    try rejectCurlyQuote()
    let start = position
    let text = take { $0.isWordCharacter || "+-.".utf8.contains($0) }
    switch text {
    case "true": return .bool(true)
    case "false": return .bool(false)
    case "null": return .null
    default: break
    }
    if let number = Self.number(text) { return number }
    throw failure(text.isEmpty ? "a value is missing" : "this is not a value; text must be in quotes", at: start)
  }

  private static func number(_ text: String) -> JSONValue? {
    let negative = text.hasPrefix("-")
    let magnitude = negative || text.hasPrefix("+") ? text.dropFirst() : text[...]
    if magnitude == "Infinity" || magnitude == "NaN" { return .number(text) }
    guard let first = magnitude.utf8.first,
      first == UInt8(ascii: ".") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first)
    else { return nil }
    if magnitude.hasPrefix("0x") || magnitude.hasPrefix("0X") {
      let digits = magnitude.dropFirst(2)
      guard digits.first?.isHexDigit == true else { return nil }
      return Int((negative ? "-" : "") + digits, radix: 16).map { .whole($0) }
    }
    // JSON5 has no octal numbers, so readers could disagree about a leading zero.
    if magnitude.utf8.count > 1, magnitude.utf8.allSatisfy({ $0 != UInt8(ascii: ".") }), first == UInt8(ascii: "0") {
      return nil
    }
    if let integer = Int(text) { return .whole(integer) }
    return Double(text.hasSuffix(".") ? text + "0" : text).map { _ in .number(text) }
  }

  private mutating func skipSpace() throws(JSON5Failure) {
    // No-break space and line separators, which often come with text copied from a web page.
    let separators = ["\u{A0}", "\u{2028}", "\u{2029}", "\u{FEFF}"]
    while let byte = peek {
      if (0x09...0x0D).contains(byte) || byte == 0x20 {
        position += 1
      } else if take("//") {
        while let byte = peek, byte != UInt8(ascii: "\n") { position += 1 }
      } else if take("/*") {
        let start = position - 2
        while !take("*/") {
          guard position < bytes.count else { throw failure("this comment is never closed", at: start) }
          position += 1
        }
      } else if !separators.contains(where: { take($0) }) {
        return
      }
    }
  }

  private mutating func string() throws(JSON5Failure) -> String {
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
        throw failure("this string is not closed on its line; write \\n for a line end", at: start)
      default: content.append(byte)
      }
    }
    throw failure("this string is never closed", at: start)
  }

  /// Parses an escape after its backslash (JSON5 §5.1).
  private mutating func escape(into content: inout [UInt8]) throws(JSON5Failure) {
    guard let byte = peek else { return }
    position += 1
    switch byte {
    case UInt8(ascii: "x"): content += Self.utf8(try hexadecimalDigits(2))
    case UInt8(ascii: "u"): content += Self.utf8(try escapedCodePoint())
    case UInt8(ascii: "\r"): _ = take("\n")  // a line continuation
    case UInt8(ascii: "\n"): break
    case UInt8(ascii: "0")...UInt8(ascii: "9"): throw failure("a backslash cannot stand before a digit")
    default: content.append(Self.controls[byte] ?? byte)
    }
  }

  private static let controls: [UInt8: UInt8] = Dictionary(uniqueKeysWithValues: zip("btnvfr".utf8, 0x08...0x0D))

  /// Returns the code point of `\uXXXX`, or of a surrogate pair of two.
  private mutating func escapedCodePoint() throws(JSON5Failure) -> UInt32 {
    let unit = try hexadecimalDigits(4)
    guard (0xD800...0xDFFF).contains(unit) else { return unit }
    guard unit < 0xDC00, take("\\u") else { throw failure("half of a surrogate pair is missing") }
    let low = try hexadecimalDigits(4)
    guard (0xDC00...0xDFFF).contains(low) else { throw failure("half of a surrogate pair is missing") }
    return 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
  }

  private mutating func hexadecimalDigits(_ count: Int) throws(JSON5Failure) -> UInt32 {
    let digits = bytes[position...].prefix(count).compactMap(\.hexadecimalDigit)
    guard digits.count == count else { throw failure("\(count) hexadecimal digits are missing") }
    position += count
    return digits.reduce(0) { $0 << 4 | UInt32($1) }
  }

  private static func utf8(_ codePoint: UInt32) -> [UInt8] {
    UnicodeScalar(codePoint).map { Array(String($0).utf8) } ?? []
  }
}

extension UInt8 {
  fileprivate var isWordCharacter: Bool {
    self >= 0x80 || self == UInt8(ascii: "$") || isOfName && ![UInt8(ascii: "-"), UInt8(ascii: ".")].contains(self)
  }
}

/// The reason why a text is not JSON5, and the position. It quotes nothing of the text, which may contain a signing key.
struct JSON5Failure: Error, Equatable, CustomStringConvertible {
  let line: Int
  /// In bytes. Line and column count from 1.
  let column: Int
  let problem: String

  var description: String { "line \(line), column \(column): \(problem)" }
}

extension JSONValue {
  /// The kind of the value, for errors. They never contain the value itself, which may be a secret.
  var kind: String {
    switch self {
    case .null: "null"
    case .bool: "a boolean"
    case .number: "a number"
    case .string: "a string"
    case .array: "a list"
    case .object: "an object"
    }
  }
}
