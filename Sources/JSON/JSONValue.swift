public import Bytes

/// A JSON value (RFC 8259) as the text spells it: numbers keep their text, objects keep order and repeated members,
/// which `JSONDecoder` merges. Strings and member names are bytes, because the author of the text may be hostile.
public enum JSONValue: Equatable, Sendable {
  /// A JSON object with its members in order.
  case object([Member])
  case array([JSONValue])
  /// A JSON string in UTF-8, with escapes decoded.
  case string(ByteString)
  /// A JSON number as the text spells it. The grammar allows only ASCII.
  case number(String)
  case bool(Bool)
  case null

  /// A member of an object.
  public struct Member: Equatable, Sendable {
    /// The name in UTF-8, with escapes decoded.
    public let name: ByteString
    /// The value.
    public let value: JSONValue

    /// Creates a member.
    public init(name: ByteString, value: JSONValue) { (self.name, self.value) = (name, value) }
  }

  /// The value of the first member with this name, byte for byte; nil without one.
  public subscript(name: String) -> JSONValue? { members.first { $0.name == name }?.value }

  /// The members of an object. Empty if this is not an object.
  public var members: [Member] {
    guard case .object(let members) = self else { return [] }
    return members
  }

  /// The names that occur more than once, each listed once, sorted by bytes.
  public var repeatedNames: [ByteString] {
    var seen: Set<ByteString> = []
    var repeated: Set<ByteString> = []
    for member in members where !seen.insert(member.name).inserted { repeated.insert(member.name) }
    return repeated.sorted()
  }

  /// Whether this value is an object.
  public var isObject: Bool { if case .object = self { true } else { false } }

  /// The elements of an array. Empty if this is not an array.
  public var elements: [JSONValue] {
    guard case .array(let elements) = self else { return [] }
    return elements
  }

  /// The bytes of a string. Nil if this is not a string.
  public var string: ByteString? {
    guard case .string(let string) = self else { return nil }
    return string
  }

  /// A whole number. Nil for other values.
  public var integer: Int? {
    guard case .number(let text) = self else { return nil }
    return Int(text)
  }

  /// The strings of an array, without its other elements.
  public var strings: [ByteString] { elements.compactMap(\.string) }
}

/// JSON values that the program builds, and their text.
extension JSONValue {
  /// Creates an object without the members that have no value.
  public static func object(of members: [(String, JSONValue?)]) -> JSONValue {
    .object(members.compactMap { name, value in value.map { Member(name: ByteString(name), value: $0) } })
  }

  /// Creates a string.
  public static func text(_ text: some StringProtocol) -> JSONValue { .string(ByteString(text)) }
  /// Creates an array of strings.
  public static func strings(_ texts: some Sequence<String>) -> JSONValue { .array(texts.map { .text($0) }) }
  /// Creates a whole number.
  public static func whole(_ number: some BinaryInteger) -> JSONValue { .number("\(number)") }

  /// The JSON text (RFC 8259), without white space.
  public var bytes: [UInt8] {
    var bytes: [UInt8] = []
    append(to: &bytes)
    return bytes
  }

  /// The same text in printable ASCII, safe on any terminal: other characters, only in strings, become UTF-16 escapes.
  package var ascii: String {
    var ascii: [UInt8] = []
    for unit in String(decoding: bytes, as: UTF8.self).utf16 {
      if unit < 0x80 {
        ascii.append(UInt8(unit))
      } else {
        ascii.append("\\u")
        ascii.append(hexadecimal: UInt8(unit >> 8))
        ascii.append(hexadecimal: UInt8(unit & 0xFF))
      }
    }
    return String(decoding: ascii, as: UTF8.self)
  }

  private func append(to output: inout [UInt8]) {
    switch self {
    case .object(let members):
      output.append("{")
      for (index, member) in members.enumerated() {
        if index > 0 { output.append(",") }
        output.append(jsonString: member.name.text)
        output.append(":")
        member.value.append(to: &output)
      }
      output.append("}")
    case .array(let elements):
      output.append("[")
      for (index, element) in elements.enumerated() {
        if index > 0 { output.append(",") }
        element.append(to: &output)
      }
      output.append("]")
    case .string(let string): output.append(jsonString: string.text)
    case .number(let text): output.append(utf8: text)
    case .bool(let isTrue): isTrue ? output.append("true") : output.append("false")
    case .null: output.append("null")
    }
  }
}

extension JSONValue: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  /// Creates a string.
  public init(stringLiteral value: String) { self = .text(value) }
  /// Creates a number.
  public init(integerLiteral value: Int) { self = .whole(value) }
  /// Creates `true` or `false`.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// Creates an array.
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  /// Creates an object.
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(elements.map { Member(name: ByteString($0.0), value: $0.1) })
  }
}
