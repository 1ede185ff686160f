import Cryptography
import DeveloperToken
import HTTPMessages

/// What values a kind of setting takes, and how they are written.
package struct SettingType<Value: Sendable>: Sendable {
  /// Whether a variable or flag holds it as JSON5 rather than as bare text.
  let isJSON5: Bool
  /// Its values in a few words, for the documents: `1s to 5m`; nil if the setting's sentence says it.
  let values: String?
  /// Understands a value, or says what would be right.
  package let parse: @Sendable (RawSetting.Content) throws(InvalidValue) -> Value
  /// The value as one writes it in JSON5.
  let write: @Sendable (Value) -> String
  /// The rows of the object that it is, or of each object of the list; none if it is no object, or has members of any
  /// name.
  var members: [any SettingRow] = []

  /// A type that is written as one word, number or string.
  static func scalar(
    values: String? = nil,
    write: @escaping @Sendable (Value) -> String,
    parse: @escaping @Sendable (RawSetting.Content) throws(InvalidValue) -> Value
  ) -> SettingType {
    SettingType(isJSON5: false, values: values, parse: parse, write: write)
  }

  /// A type that is written as a string.
  static func string(
    _ remedy: String,
    values: String? = nil,
    write: @escaping @Sendable (Value) -> String = { "\"\($0)\"" },
    parse: @escaping @Sendable (String) throws(InvalidValue) -> Value
  ) -> SettingType {
    scalar(values: values, write: write) { (content) throws(InvalidValue) in
      switch content {
      case .text(let text), .json(.string(let text)): return try parse(text)
      default: throw .wrongType(content, remedy: remedy)
      }
    }
  }
}

extension SettingType {
  /// A list of what `element` takes, invalid as a whole if one element is.
  ///
  /// - Parameter ifEmpty: What to write instead of an empty list, which would lift a restriction instead of making one;
  ///   nil if it is allowed.
  static func list<Element: Sendable>(
    of element: SettingType<Element>, remedy: String, ifEmpty: String? = nil
  ) -> SettingType where Value == [Element] {
    SettingType(
      isJSON5: true, values: nil,
      parse: { (content) throws(InvalidValue) in
        guard case .json(.array(let values)) = content else { throw .wrongType(content, remedy: remedy) }
        if values.isEmpty, let ifEmpty { throw InvalidValue(problem: "is empty", remedy: ifEmpty) }
        var elements: [Element] = []
        for value in values { elements.append(try element.parse(.json(value))) }
        return elements
      },
      write: { "[" + $0.map(element.write).joined(separator: ", ") + "]" })
  }

  /// A list of what `element` takes, each valid or invalid by itself.
  ///
  /// - Parameters:
  ///   - remedy: What to write instead of a value without brackets; nil if one stands for a list of one.
  ///   - ifEmpty: What to write instead of an empty list; nil if it is allowed.
  static func elements<Element: Sendable>(
    of element: SettingType<Element>, atMost most: Int, remedy: String? = nil, ifEmpty: String? = nil
  ) -> SettingType where Value == SettingElements<Element> {
    SettingType(
      isJSON5: true, values: element.values,
      parse: { (content) throws(InvalidValue) in
        guard case .json(.array(let values)) = content else {
          if let remedy { throw .wrongType(content, remedy: remedy) }
          return SettingElements(results: [.success(try element.parse(content))], hasBrackets: false)
        }
        if values.isEmpty, let ifEmpty { throw InvalidValue(problem: "is empty", remedy: ifEmpty) }
        guard values.count <= most else {
          throw InvalidValue(problem: "has \(values.count) elements", remedy: "write \(most) at most")
        }
        return SettingElements(
          results: values.map { value in Result { () throws(InvalidValue) in try element.parse(.json(value)) } })
      },
      write: { list in
        let text = list.results.map { (try? $0.get()).map(element.write) ?? "…" }.joined(separator: ", ")
        return list.hasBrackets ? "[\(text)]" : text
      },
      members: element.members)
  }
}

/// The elements of a list, each valid or invalid by itself.
struct SettingElements<Element: Sendable>: Sendable {
  var results: [Result<Element, InvalidValue>] = []
  /// Whether it is a list, rather than the one value without brackets.
  var hasBrackets = true
}

/// An object whose members have rows of their own: ``SettingsReader/readObject(_:_:)`` reads them.
typealias SettingObject = [String: JSON5Value]

extension SettingType where Value == SettingObject {
  /// An object with these members; with members of any name if there are none.
  static func object(of members: [any SettingRow], remedy: String) -> SettingType {
    SettingType(
      isJSON5: true, values: nil,
      parse: { (content) throws(InvalidValue) in
        guard case .json(.object(let object)) = content else { throw .wrongType(content, remedy: remedy) }
        return object
      },
      write: { JSON5Value.object($0).text }, members: members)
  }
}

extension SettingType where Value: CustomStringConvertible {
  /// An identifier of Apple's, which `make` gives if the text is one.
  static func identifier(
    _ remedy: String, make: @escaping @Sendable (String) throws(IdentifierError) -> Value
  ) -> SettingType {
    string(remedy) { (text) throws(InvalidValue) in
      guard let value = try? make(text) else {
        throw InvalidValue(problem: "\(quoted(text)) is not 10 characters of A-Z and 0-9", remedy: remedy)
      }
      return value
    }
  }
}

extension SettingType where Value == Origin {
  /// A web origin.
  static let origin: SettingType = {
    let remedy = "write an origin such as \"https://app.example.com\""
    return string(remedy) { (text) throws(InvalidValue) in
      do throws(OriginError) {
        return try Origin(text)
      } catch {
        guard isQuotable(text) else { throw InvalidValue(problem: "\(quoted(text)) is not an origin", remedy: remedy) }
        throw InvalidValue(problem: "\(error)", remedy: nil)
      }
    }
  }()
}

extension SettingType where Value == SecretBytes {
  /// A secret's text.
  static func secret(_ remedy: String) -> SettingType {
    scalar(write: { "\"\($0)\"" }) { (content) throws(InvalidValue) in
      switch content {
      case .secret(let secret): return secret
      case .text(let text), .json(.string(let text)): return SecretBytes(copying: Array(text.utf8).span)
      case .json: throw .wrongType(content, remedy: remedy)
      }
    }
  }
}

extension SettingType where Value == Bool {
  /// `true` or `false`.
  static let bool = SettingType.scalar(values: "true, false", write: { "\($0)" }) { (content) throws(InvalidValue) in
    let remedy = "write true or false"
    switch content {
    case .json(.bool(let value)): return value
    case .text("true"): return true
    case .text("false"): return false
    case .text(let text): throw InvalidValue(problem: "\(quoted(text)) is neither true nor false", remedy: remedy)
    default: throw .wrongType(content, remedy: remedy)
    }
  }
}

extension SettingType where Value: CaseIterable & RawRepresentable, Value.RawValue == String {
  /// One of an enumeration's words.
  static var word: SettingType {
    let words = Value.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    let remedy = "write one of \(words)"
    let values = words.replacing("\"", with: "")
    return string(remedy, values: values, write: { "\"\($0.rawValue)\"" }) { (text) throws(InvalidValue) in
      guard let value = Value(rawValue: text) else {
        throw InvalidValue(problem: "\(quoted(text)) is not among its values", remedy: remedy)
      }
      return value
    }
  }
}

extension SettingType where Value == String {
  /// A file's path, as the process sees it from its working directory.
  static let path = SettingType.string("write a file's path") { (text) throws(InvalidValue) in
    guard !looksLikeKey(text) else {
      throw InvalidValue(problem: "holds a key or certificate itself", remedy: "write the path of a file that holds it")
    }
    guard !text.isEmpty, !text.utf8.contains(0) else {
      throw InvalidValue(problem: "is empty or holds a NUL", remedy: "write a file's path")
    }
    guard !text.hasPrefix("~") else { throw InvalidValue.unexpandedHome }
    return text
  }

  /// A Unix-domain socket's path, which the system keeps in 108 bytes with its terminating NUL (unix(7)).
  static let socketPath = SettingType.string("write a path") { (text) throws(InvalidValue) in
    guard (1...107).contains(text.utf8.count), !text.utf8.contains(0) else {
      throw InvalidValue(problem: "is a path of \(text.utf8.count) bytes", remedy: "write a path of 1 to 107 bytes")
    }
    guard !text.hasPrefix("~") else { throw InvalidValue.unexpandedHome }
    return text
  }
}
