import Bytes
import JSON

/// A parser of JSON5 (https://spec.json5.org). Numbers with a whole value become decimal.
///
/// `JSONDecoder` in FoundationEssentials parses JSON5 too. However, for an invalid file it reports only that it "was
/// not valid JSON", without a line, and of members with the same name it takes the first without an error. An operator
/// who fixes a configuration at night needs both errors.
///
/// The parser does not support escapes in member names without quotation marks.
struct JSON5Parser {
  /// The maximum nesting depth. No configuration needs more, and it bounds the recursion, so that the stack suffices.
  static let maximumDepth = 32

  let bytes: [UInt8]
  var position = 0

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
        problem:
          "this looks like YAML; in JSON5, braces enclose members, commas separate them, and text is in quotation "
          + "marks, as in { musickit: { teamID: \"TEAM123456\" } }")
    }
    let value = try parser.value(depth: 0)
    try parser.skipSpace()
    guard parser.peek == nil else { throw parser.failure("there is text after the end of the value") }
    return value
  }

  static func parse(_ text: String) throws(JSON5Failure) -> JSONValue { try parse(Array(text.utf8)) }

  /// Whether the first line that is no comment is a name with a colon, without an object around it. A colon of a URL
  /// precedes a slash.
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

  /// The next byte, or nil at the end.
  var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

  /// Consumes `text` if the next bytes are equal to it. Returns whether they are.
  mutating func take(_ text: String) -> Bool {
    guard bytes[position...].starts(with: text.utf8) else { return false }
    position += text.utf8.count
    return true
  }

  /// Returns a failure at the current position.
  func failure(_ problem: String) -> JSON5Failure {
    let before = bytes[..<min(position, bytes.count)]
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
    case UInt8(ascii: "["): return .array(try array(depth: depth))
    case UInt8(ascii: "\""), UInt8(ascii: "'"): return .text(try string())
    default: return try literal()
    }
  }

  private mutating func object(depth: Int) throws(JSON5Failure) -> [JSONValue.Member] {
    position += 1
    var members: [JSONValue.Member] = []
    var names: Set<String> = []
    while true {
      try skipSpace()
      if take("}") { return members }
      let start = position
      let name = try memberName()
      guard names.insert(name).inserted else {
        position = start
        throw failure("the object already has a member \(quoted(name))")
      }
      try skipSpace()
      guard take(":") else { throw failure("a \":\" is missing after the member's name") }
      members.append(.init(name: ByteString(name), value: try value(depth: depth + 1)))
      try skipSpace()
      guard take(",") || peek == UInt8(ascii: "}") else { throw failure("a \",\" or \"}\" is missing") }
    }
  }

  private mutating func array(depth: Int) throws(JSON5Failure) -> [JSONValue] {
    position += 1
    var elements: [JSONValue] = []
    while true {
      try skipSpace()
      if take("]") { return elements }
      elements.append(try value(depth: depth + 1))
      try skipSpace()
      guard take(",") || peek == UInt8(ascii: "]") else { throw failure("a \",\" or \"]\" is missing") }
    }
  }

  private mutating func memberName() throws(JSON5Failure) -> String {
    if peek == UInt8(ascii: "\"") || peek == UInt8(ascii: "'") { return try string() }
    try rejectCurlyQuote()
    let name = word()
    guard let first = name.utf8.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
      throw failure("a member's name is missing")
    }
    return name
  }

  /// Throws if the next character is a quotation mark of a word processor or a web page.
  private func rejectCurlyQuote() throws(JSON5Failure) {
    let curly = ["\u{201C}", "\u{201D}", "\u{201E}", "\u{2018}", "\u{2019}"]
    guard curly.contains(where: { bytes[position...].starts(with: $0.utf8) }) else { return }
    throw failure("this is a curly quotation mark, as word processors and web pages write it; use the straight one, \"")
  }

  /// Consumes and returns letters, digits, `_`, `$` and non-ASCII characters. The result may be empty.
  mutating func word() -> String {
    let start = position
    while let byte = peek, byte.isWordCharacter { position += 1 }
    return String(decoding: bytes[start..<position], as: UTF8.self)
  }
}

extension UInt8 {
  fileprivate var isWordCharacter: Bool {
    self >= 0x80 || self == UInt8(ascii: "$") || isOfName && ![UInt8(ascii: "-"), UInt8(ascii: ".")].contains(self)
  }
}

extension JSON5Parser {
  /// Parses `true`, `false`, `null` or a number.
  mutating func literal() throws(JSON5Failure) -> JSONValue {
    try rejectCurlyQuote()
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
    throw failure(text.isEmpty ? "a value is missing" : "this is not a value; text must be in quotes")
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

  /// Returns the JSON5 number in `text`, or nil.
  private static func number(_ text: String) -> JSONValue? {
    let negative = text.hasPrefix("-")
    let magnitude = negative || text.hasPrefix("+") ? text.dropFirst() : text[...]
    if magnitude == "Infinity" || magnitude == "NaN" { return .number(text) }
    guard let first = magnitude.utf8.first,
      first == UInt8(ascii: ".") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first)
    else { return nil }
    if magnitude.hasPrefix("0x") || magnitude.hasPrefix("0X") {
      return hexadecimal(magnitude.dropFirst(2), negative: negative)
    }
    // JSON5 has no octal numbers, so readers could disagree about a leading zero.
    if magnitude.utf8.count > 1, magnitude.utf8.allSatisfy({ $0 != UInt8(ascii: ".") }), first == UInt8(ascii: "0") {
      return nil
    }
    if let integer = Int(text) { return .whole(integer) }
    return Double(text.hasSuffix(".") ? text + "0" : text).map { _ in .number(text) }
  }

  private static func hexadecimal(_ digits: Substring, negative: Bool) -> JSONValue? {
    guard let first = digits.first, first.isHexDigit else { return nil }
    return Int((negative ? "-" : "") + digits, radix: 16).map { .whole($0) }
  }
}

extension JSON5Parser {
  /// Skips white space and comments.
  mutating func skipSpace() throws(JSON5Failure) {
    while position < bytes.count {
      if take("//") {
        while let byte = peek, byte != UInt8(ascii: "\n") { position += 1 }
      } else if take("/*") {
        try skipBlockComment()
      } else if !skipOneSpace() {
        return
      }
    }
  }

  private mutating func skipBlockComment() throws(JSON5Failure) {
    let start = position - 2
    while position < bytes.count {
      if take("*/") { return }
      position += 1
    }
    position = start
    throw failure("this comment is never closed")
  }

  private mutating func skipOneSpace() -> Bool {
    switch peek {
    case 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20:
      position += 1
      return true
    default:
      // No-break space and line separators, which often come with text copied from a web page.
      return take("\u{A0}") || take("\u{2028}") || take("\u{2029}") || take("\u{FEFF}")
    }
  }
}

extension JSON5Parser {
  /// Parses a string that starts at its quotation mark.
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

  /// Parses an escape after its backslash (JSON5 §5.1).
  private mutating func escape(into content: inout [UInt8]) throws(JSON5Failure) {
    guard let byte = peek else { return }
    position += 1
    switch byte {
    case UInt8(ascii: "x"): content.append(contentsOf: Self.utf8(UInt32(try hexadecimalDigits(2))))
    case UInt8(ascii: "u"): content.append(contentsOf: Self.utf8(try escapedCodePoint()))
    case UInt8(ascii: "\r"): _ = take("\n")  // a line continuation
    case UInt8(ascii: "\n"): break
    case UInt8(ascii: "0")...UInt8(ascii: "9"): throw failure("a backslash cannot stand before a digit")
    default: content.append(Self.controls[byte] ?? byte)
    }
  }

  private static let controls: [UInt8: UInt8] = Dictionary(uniqueKeysWithValues: zip("btnvfr".utf8, 0x08...0x0D))

  /// Returns the code point of `\uXXXX`, or of a surrogate pair of two.
  private mutating func escapedCodePoint() throws(JSON5Failure) -> UInt32 {
    let unit = UInt32(try hexadecimalDigits(4))
    guard (0xD800...0xDFFF).contains(unit) else { return unit }
    guard unit < 0xDC00, take("\\u") else { throw failure("half of a surrogate pair is missing") }
    let low = UInt32(try hexadecimalDigits(4))
    guard (0xDC00...0xDFFF).contains(low) else { throw failure("half of a surrogate pair is missing") }
    return 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
  }

  private mutating func hexadecimalDigits(_ count: Int) throws(JSON5Failure) -> UInt16 {
    let digits = bytes[position...].prefix(count).compactMap(\.hexadecimalDigit)
    guard digits.count == count else { throw failure("\(count) hexadecimal digits are missing") }
    position += count
    return digits.reduce(0) { $0 << 4 | UInt16($1) }
  }

  private static func utf8(_ codePoint: UInt32) -> [UInt8] {
    UnicodeScalar(codePoint).map { Array(String($0).utf8) } ?? []
  }
}

/// The reason why a text is not JSON5, and the position. It quotes nothing of the text, which may contain a signing key.
struct JSON5Failure: Error, Equatable, CustomStringConvertible {
  let line: Int
  /// In bytes. Line and column count from 1.
  let column: Int
  /// The problem: `a "," or "}" is missing`.
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
