import Bytes

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

  /// The same text in printable ASCII, so that it is safe on any terminal: only strings have other characters, and these
  /// become escapes of UTF-16.
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
