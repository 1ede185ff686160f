import Cryptography
import DeveloperToken
import HTTPMessages

/// What values a kind of setting takes, and how they are written.
package struct SettingType<Value: Sendable>: Sendable {
  /// Whether a variable or flag holds it as JSON5 rather than as bare text.
  let isList: Bool
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
    SettingType(isList: false, values: values, parse: parse, write: write)
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
      case .json(let other): throw .wrongType(other, remedy: remedy)
      case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
      }
    }
  }
}

extension SettingType {
  /// A list of what `element` takes, invalid as a whole if one element is.
  ///
  /// - Parameter ifEmpty: What to write instead of an empty list; nil if that is allowed.
  static func list<Element: Sendable>(
    of element: SettingType<Element>, remedy: String, ifEmpty: String? = nil
  ) -> SettingType where Value == [Element] {
    SettingType(
      isList: true, values: nil,
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
  ///   - ifEmpty: What to write instead of an empty list; nil if that is allowed.
  static func elements<Element: Sendable>(
    of element: SettingType<Element>, atMost most: Int, remedy: String? = nil, ifEmpty: String? = nil
  ) -> SettingType where Value == SettingElements<Element> {
    SettingType(
      isList: true, values: element.values,
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
      isList: true, values: nil,
      parse: { (content) throws(InvalidValue) in
        guard case .json(.object(let object)) = content else { throw .wrongType(content, remedy: remedy) }
        return object
      },
      write: { JSON5Value.object($0).text }, members: members)
  }
}

extension SettingType where Value == Duration {
  /// A span of time within `seconds`: a number with its unit, `s`, `m`, `h` or `d`.
  package static func duration(seconds range: ClosedRange<Int>) -> SettingType {
    duration(
      milliseconds: range.lowerBound * 1000...range.upperBound * 1000, units: Array(units.dropLast()), example: "45s")
  }

  /// A span of time within `milliseconds`: a number with its unit, `ms`, `s`, `m`, `h` or `d`.
  static func duration(milliseconds range: ClosedRange<Int>) -> SettingType {
    duration(milliseconds: range, units: units, example: "500ms")
  }

  private static func duration(
    milliseconds range: ClosedRange<Int>, units: [Unit], example: String
  ) -> SettingType {
    let bounds = "\(durationWords(milliseconds: range.lowerBound)) to \(durationWords(milliseconds: range.upperBound))"
    let remedy = "write a duration such as \"\(example)\", \"15m\", \"12h\" or \"30d\", from \(bounds)"
    let values =
      "\(durationText(milliseconds: range.lowerBound)) to \(durationText(milliseconds: range.upperBound))"
    return scalar(values: values, write: { "\"\(durationText(milliseconds: milliseconds(of: $0)))\"" }) {
      (content) throws(InvalidValue) in
      let text: String
      switch content {
      case .text(let value), .json(.string(let value)): text = value
      case .json(.integer), .json(.number):
        throw InvalidValue(problem: "is a number without a unit", remedy: remedy)
      case .json(let other): throw .wrongType(other, remedy: remedy)
      case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
      }
      guard let milliseconds = milliseconds(of: text, units) else {
        throw InvalidValue(problem: "\(quoted(text)) is not a duration", remedy: remedy)
      }
      guard range.contains(milliseconds) else {
        throw InvalidValue(problem: "\(quoted(text)) is out of range", remedy: remedy)
      }
      return .milliseconds(milliseconds)
    }
  }
}

private typealias Unit = (suffix: String, name: String, milliseconds: Int)

private let units: [Unit] = [
  ("d", "day", 86_400_000), ("h", "hour", 3_600_000), ("m", "minute", 60_000), ("s", "second", 1000),
  ("ms", "millisecond", 1),
]

/// `seconds` in the largest unit that says it exactly in a number that one can still read: `90s`, `15m`.
package func durationText(_ seconds: Int) -> String { durationText(milliseconds: seconds * 1000) }

private func durationText(milliseconds: Int) -> String {
  let unit = readableUnit(milliseconds: milliseconds)
  return "\(milliseconds / unit.milliseconds)\(unit.suffix)"
}

/// The same in words: `1 minute`, `2 days`, and Apple's limit as Apple calls it.
private func durationWords(milliseconds: Int) -> String {
  let unit = readableUnit(milliseconds: milliseconds)
  let count = milliseconds / unit.milliseconds
  let sixMonths = milliseconds == Settings.Token.cap * 1000 ? " (six months)" : ""
  return "\(count) \(unit.name)\(count == 1 ? "" : "s")\(sixMonths)"
}

private func readableUnit(milliseconds: Int) -> Unit {
  let seconds: Unit = ("s", "second", 1000)
  let fallback = milliseconds.isMultiple(of: 1000) ? seconds : ("ms", "millisecond", 1)
  return units.first {
    (1..<1000).contains(milliseconds / $0.milliseconds) && milliseconds.isMultiple(of: $0.milliseconds)
  } ?? fallback
}

private func milliseconds(of duration: Duration) -> Int {
  let (seconds, attoseconds) = duration.components
  return Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
}

/// The milliseconds that `text` stands for; nil if it is malformed or beyond an `Int`.
private func milliseconds(of text: String, _ units: [Unit]) -> Int? {
  let digits = text.prefix { ("0"..."9").contains($0) }
  guard let unit = units.first(where: { text.dropFirst(digits.count) == $0.suffix }), let number = Int(digits) else {
    return nil
  }
  let (milliseconds, overflow) = number.multipliedReportingOverflow(by: unit.milliseconds)
  return overflow ? nil : milliseconds
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
      case .json(let other): throw .wrongType(other, remedy: remedy)
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
    case .json(let other): throw .wrongType(other, remedy: remedy)
    case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
    }
  }
}

extension SettingType where Value == Int {
  /// A whole number within `range`.
  static func integer(_ range: ClosedRange<Int>) -> SettingType {
    let remedy = "write a whole number from \(range.lowerBound) to \(range.upperBound)"
    return scalar(values: "\(range.lowerBound) to \(range.upperBound)", write: { "\($0)" }) {
      (content) throws(InvalidValue) in
      let number: Int
      switch content {
      case .json(.integer(let value)): number = value
      case .json(.number(let text)):
        throw InvalidValue(problem: "\(quoted(text)) is not a whole number", remedy: remedy)
      case .json(let other): throw .wrongType(other, remedy: remedy)
      case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
      case .text(let text):
        guard let value = Int(text) else {
          throw InvalidValue(problem: "\(quoted(text)) is not a whole number", remedy: remedy)
        }
        number = value
      }
      guard range.contains(number) else { throw InvalidValue(problem: "\(number) is out of range", remedy: remedy) }
      return number
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
