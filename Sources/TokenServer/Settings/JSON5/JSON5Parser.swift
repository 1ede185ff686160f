/// Reads JSON5 (https://spec.json5.org) into a ``JSON5Value``.
///
/// `JSONDecoder` in FoundationEssentials reads JSON5 too. But for an invalid file it says only that it "was not valid
/// JSON", without a line, and if a name occurs twice it takes the first member without an error. An operator who fixes
/// a configuration at night needs both.
///
/// Left out of JSON5: escapes in member names that are not quoted.
struct JSON5Parser {
  /// Deeper nesting than any configuration has; recursion ends here rather than at the end of the stack.
  static let maximumDepth = 32

  let bytes: [UInt8]
  var position = 0

  private init(_ bytes: [UInt8]) {
    self.bytes = bytes
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }  // a byte order mark, as some editors leave
  }

  /// The one value that `bytes` hold.
  static func parse(_ bytes: [UInt8]) throws(JSON5Failure) -> JSON5Value {
    var parser = JSON5Parser(bytes)
    // Not by way of a string: it would be one more copy of what may hold a key.
    guard (try? UTF8Span(validating: bytes.span)) != nil else {
      throw JSON5Failure(line: 1, column: 1, problem: "the text is not UTF-8")
    }
    let value = try parser.value(depth: 0)
    try parser.skipSpace()
    guard parser.peek == nil else { throw parser.failure("there is more after the end of the value") }
    return value
  }

  /// The one value that `text` holds.
  static func parse(_ text: String) throws(JSON5Failure) -> JSON5Value {
    try parse(Array(text.utf8))
  }

  /// The next byte, or nil at the end.
  var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

  /// Whether the next bytes are `text`; if so they are consumed.
  mutating func take(_ text: String) -> Bool {
    guard bytes[position...].starts(with: text.utf8) else { return false }
    position += text.utf8.count
    return true
  }

  /// A failure at the present position.
  func failure(_ problem: String) -> JSON5Failure {
    let before = bytes[..<min(position, bytes.count)]
    let line = 1 + before.count { $0 == UInt8(ascii: "\n") }
    let lineStart = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    return JSON5Failure(line: line, column: before.count - lineStart + 1, problem: problem)
  }

  private mutating func value(depth: Int) throws(JSON5Failure) -> JSON5Value {
    guard depth < Self.maximumDepth else { throw failure("lists and objects are nested too deeply") }
    try skipSpace()
    switch peek {
    case nil: throw failure("the text ends where a value should be")
    case UInt8(ascii: "{"): return .object(try object(depth: depth))
    case UInt8(ascii: "["): return .array(try array(depth: depth))
    case UInt8(ascii: "\""), UInt8(ascii: "'"): return .string(try string())
    default: return try literal()
    }
  }

  private mutating func object(depth: Int) throws(JSON5Failure) -> [String: JSON5Value] {
    position += 1
    var members: [String: JSON5Value] = [:]
    while true {
      try skipSpace()
      if take("}") { return members }
      let start = position
      let name = try memberName()
      guard members[name] == nil else {
        position = start
        throw failure("this member occurs a second time in its object")
      }
      try skipSpace()
      guard take(":") else { throw failure("a \":\" is missing after the member's name") }
      members[name] = try value(depth: depth + 1)
      try skipSpace()
      guard take(",") || peek == UInt8(ascii: "}") else { throw failure("a \",\" or \"}\" is missing") }
    }
  }

  private mutating func array(depth: Int) throws(JSON5Failure) -> [JSON5Value] {
    position += 1
    var elements: [JSON5Value] = []
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
    let name = word()
    guard let first = name.utf8.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
      throw failure("a member's name is missing")
    }
    return name
  }

  /// The letters, digits, `_`, `$` and non-ASCII characters that stand here, perhaps none.
  mutating func word() -> String {
    let start = position
    while let byte = peek, byte.isWordCharacter { position += 1 }
    return String(decoding: bytes[start..<position], as: UTF8.self)
  }
}

extension UInt8 {
  fileprivate var isWordCharacter: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...:
      true
    default: false
    }
  }
}
