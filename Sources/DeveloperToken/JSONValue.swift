/// A JSON value (RFC 8259) as it stands in a token: numbers keep their text, objects their order and repetitions.
///
/// An own reader of a hundred lines, because the inspector's question is how the JSON is written: `JSONDecoder` merges
/// repeated members, takes 1.0e3 for a whole number, and brings a second module into every program that mints.
indirect enum JSONValue: Equatable, Sendable {
  case object([Member])
  case array([JSONValue])
  case string(String)
  case number(String)
  case bool(Bool)
  case null

  struct Member: Equatable, Sendable {
    let name: String
    let value: JSONValue
  }

  /// The first member of that name, if this is an object that has one.
  subscript(name: String) -> JSONValue? {
    members.first { $0.name == name }?.value
  }

  /// The members, if this is an object.
  var members: [Member] {
    guard case .object(let members) = self else { return [] }
    return members
  }

  /// The names that occur more than once, each once.
  var repeatedNames: [String] {
    var seen: Set<String> = []
    var repeated: Set<String> = []
    for member in members where !seen.insert(member.name).inserted { repeated.insert(member.name) }
    return repeated.sorted()
  }

  var isObject: Bool {
    if case .object = self { true } else { false }
  }
}
