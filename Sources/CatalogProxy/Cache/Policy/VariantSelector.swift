import HTTPTypes

/// Which requests an answer is for, as its `Vary` has it (RFC 9111 §4.1): those that are sent upstream with the same
/// values of the fields that it names.
///
/// Compared is what we send, not what the caller sent us: a field that we never pass on (Cookie, Origin) is absent every
/// time, so an answer that varies by it is the same for everybody.
struct VariantSelector: Sendable, Equatable {
  /// Each field that counts, with its value then.
  private let values: [Value]

  private struct Value: Sendable, Equatable {
    let name: HTTPField.Name
    let value: String?
  }

  /// The most names in a `Vary`; a real response has fewer.
  private static let mostNames = 16

  /// Nil if no request selects the answer, as with `Vary: *`, or if the field cannot be read.
  ///
  /// Two names do not count. `Accept-Encoding`: the store makes either coding of the other. `Authorization`: it is the
  /// proxy's own and means the same each time, while its value changes with every new token.
  init?(_ fields: HTTPFields, sent: HTTPFields) {
    var values: [Value] = []
    for line in fields[values: .vary] {
      let bytes = Array(line.utf8)
      var scanner = FieldScanner()
      while let element = scanner.directive(in: bytes.span) {
        let text = String(decoding: bytes[element.name], as: UTF8.self)
        guard element.argument == .absent, text != "*", let name = HTTPField.Name(text), values.count < Self.mostNames
        else { return nil }
        if name == .acceptEncoding || name == .authorization || values.contains(where: { $0.name == name }) { continue }
        values.append(Value(name: name, value: sent[name]))
      }
    }
    self.values = values
  }

  /// Whether a request that is sent upstream with these fields selects the answer.
  func matches(_ sent: HTTPFields) -> Bool {
    values.allSatisfy { sent[$0.name] == $0.value }
  }

  /// The names, for the answer's own `Vary`.
  var names: [HTTPField.Name] { values.map(\.name) }

  /// About what it takes, in bytes.
  var cost: Int { values.reduce(0) { $0 + 96 + ($1.value?.utf8.count ?? 0) } }
}
