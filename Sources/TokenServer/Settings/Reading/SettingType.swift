/// What values a kind of setting takes, and how they are written.
struct SettingType<Value: Sendable>: Sendable {
  /// Whether a variable or flag holds it as JSON5 rather than as bare text.
  let isList: Bool
  /// Understands a value, or says what would be right.
  let parse: @Sendable (RawSetting.Content) throws(InvalidValue) -> Value
  /// The value as one writes it in JSON5.
  let write: @Sendable (Value) -> String

  /// A type that is written as one word, number or string.
  static func scalar(
    write: @escaping @Sendable (Value) -> String,
    parse: @escaping @Sendable (RawSetting.Content) throws(InvalidValue) -> Value
  ) -> SettingType {
    SettingType(isList: false, parse: parse, write: write)
  }

  /// A type that is written as a string.
  static func string(
    _ remedy: String,
    write: @escaping @Sendable (Value) -> String = { "\"\($0)\"" },
    parse: @escaping @Sendable (String) throws(InvalidValue) -> Value
  ) -> SettingType {
    scalar(write: write) { (content) throws(InvalidValue) in
      switch content {
      case .text(let text), .json(.string(let text)): return try parse(text)
      case .json(let other): throw .wrongType(other, remedy: remedy)
      case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
      }
    }
  }
}

extension SettingType {
  /// A list of what `element` takes.
  static func list<Element: Sendable>(of element: SettingType<Element>, remedy: String) -> SettingType
  where Value == [Element] {
    SettingType(
      isList: true,
      parse: { (content) throws(InvalidValue) in
        guard case .json(.array(let values)) = content else {
          guard case .json(let other) = content else { throw InvalidValue(problem: "is text", remedy: remedy) }
          throw .wrongType(other, remedy: remedy)
        }
        var elements: [Element] = []
        for value in values { elements.append(try element.parse(.json(value))) }
        return elements
      },
      write: { "[" + $0.map(element.write).joined(separator: ", ") + "]" })
  }
}
