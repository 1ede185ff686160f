import Bytes

/// A JSON value to be written, its members in the order given.
indirect enum Document: Sendable, Equatable {
  case object([Member])
  case array([Document])
  case string(String)
  case number(Int)
  case bool(Bool)
  case null

  /// A name and a value of an object.
  struct Member: Sendable, Equatable {
    let name: String
    let value: Document
  }

  /// An object; members without a value are left out.
  static func object(_ members: [(String, Document?)]) -> Document {
    .object(members.compactMap { name, value in value.map { Member(name: name, value: $0) } })
  }

  static func strings(_ texts: some Sequence<String>) -> Document {
    .array(texts.map { .string($0) })
  }

  /// The members, if this is an object.
  var members: [Member] {
    guard case .object(let members) = self else { return [] }
    return members
  }

  /// The JSON text (RFC 8259), without white space.
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    append(to: &bytes)
    return bytes
  }

  private func append(to output: inout [UInt8]) {
    switch self {
    case .object(let members):
      output.append("{")
      for (index, member) in members.enumerated() {
        if index > 0 { output.append(",") }
        output.append(jsonString: member.name)
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
    case .string(let text): output.append(jsonString: text)
    case .number(let number): output.append(decimal: number)
    case .bool(let isTrue): isTrue ? output.append("true") : output.append("false")
    case .null: output.append("null")
    }
  }
}

extension Document: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  init(stringLiteral value: String) { self = .string(value) }
  init(integerLiteral value: Int) { self = .number(value) }
  init(booleanLiteral value: Bool) { self = .bool(value) }
  init(arrayLiteral elements: Document...) { self = .array(elements) }
  init(dictionaryLiteral elements: (String, Document)...) {
    self = .object(elements.map { Member(name: $0.0, value: $0.1) })
  }
}
