/// One value of a JSON5 document.
enum JSON5Value: Sendable, Equatable {
  case null
  case bool(Bool)
  case integer(Int)
  /// A number that is no `Int`, as it was written: no setting takes one, so it is kept only to be named in a fault.
  case number(String)
  case string(String)
  case array([JSON5Value])
  case object([String: JSON5Value])

  /// What it is, as a fault names it. Never the value itself, which may be a secret.
  var kind: String {
    switch self {
    case .null: "null"
    case .bool: "a boolean"
    case .integer, .number: "a number"
    case .string: "a string"
    case .array: "a list"
    case .object: "an object"
    }
  }
}

extension JSON5Value {
  /// As one writes it in JSON5, on one line.
  var text: String {
    switch self {
    case .null: "null"
    case .bool(let value): "\(value)"
    case .integer(let value): "\(value)"
    case .number(let text): text
    case .string(let text): "\"\(text)\""
    case .array(let elements): "[" + elements.map(\.text).joined(separator: ", ") + "]"
    case .object(let members):
      members.isEmpty
        ? "{}" : "{ " + members.sorted { $0.key < $1.key }.map { "\($0): \($1.text)" }.joined(separator: ", ") + " }"
    }
  }
}
