import Bytes
import JSON

/// The type of a setting: its valid values, and how to parse and write them.
package struct SettingType<Value: Sendable>: Sendable {
  /// Whether a variable or flag has the value as JSON5 instead of plain text.
  var isJSON5 = false
  /// The valid values in a few words, for the documents: `1s to 5m`. Nil if the setting's sentence describes them.
  var values: String?
  /// The rows of the object, or of each object of the list. An object without rows has members of any name.
  var members: [any SettingRow] = []
  let write: @Sendable (Value) -> String
  /// Parses a value, or throws a description of what would be valid. A relative path is one in `folder`, that of the file
  /// in which it was written.
  package let parse: @Sendable (RawSetting.Content, _ folder: String?) throws(InvalidValue) -> Value

  static func string(
    _ remedy: String, values: String? = nil, write: @escaping @Sendable (Value) -> String = { "\"\($0)\"" },
    parse: @escaping @Sendable (String, _ remedy: String) throws(InvalidValue) -> Value
  ) -> SettingType {
    SettingType(values: values, write: write) { (content, _) throws(InvalidValue) in
      guard let text = content.string else { throw .wrongType(content, remedy: remedy) }
      return try parse(text, remedy)
    }
  }

  /// Creates a type for a text from which `make` makes a value. The error says that any other is not `kind`.
  static func text(
    _ kind: String, remedy: String, values: String? = nil, quote: (@Sendable (String) -> String)? = quoted,
    write: @escaping @Sendable (Value) -> String = { "\"\($0)\"" }, make: @escaping @Sendable (String) -> Value?
  ) -> SettingType {
    string(remedy, values: values, write: write) { (text, remedy) throws(InvalidValue) in
      guard let value = make(text) else {
        throw InvalidValue("\(quote.map { "\($0(text)) " } ?? "")is not \(kind)", remedy: remedy)
      }
      return value
    }
  }

  /// Creates a type whose values are those of this one in another form.
  func map<Other: Sendable>(
    _ form: @escaping @Sendable (Value) throws(InvalidValue) -> Other, back: @escaping @Sendable (Other) -> Value
  ) -> SettingType<Other> {
    SettingType<Other>(isJSON5: isJSON5, values: values, write: { write(back($0)) }) {
      (content, folder) throws(InvalidValue) in try form(try parse(content, folder))
    }
  }

  /// Creates a type for a list of `element`. One invalid element makes the whole list invalid. With the advice `ifEmpty`,
  /// an empty list is invalid, which would remove a restriction instead of adding one.
  static func list<Element: Sendable>(
    of element: SettingType<Element>, atMost most: Int = .max, remedy: String, ifEmpty: String? = nil
  ) -> SettingType where Value == [Element] {
    SettingType<SettingElements<Element>>.elements(of: element, atMost: most, remedy: remedy, ifEmpty: ifEmpty).map(
      { (list) throws(InvalidValue) in
        if let invalid = list.invalid { throw invalid }
        return list.results.compactMap { try? $0.get() }
      }, back: { SettingElements(results: $0.map { .success($0) }) })
  }

  /// Creates a type for a list of `element`. Each element is valid or invalid independently. Without `remedy`, a single
  /// value without brackets means a list of one.
  static func elements<Element: Sendable>(
    of element: SettingType<Element>, atMost most: Int, remedy: String? = nil, ifEmpty: String? = nil
  ) -> SettingType where Value == SettingElements<Element> {
    SettingType(isJSON5: true, values: element.values, members: element.members) { list in
      let text = list.results.map { (try? $0.get()).map(element.write) ?? "…" }.joined(separator: ", ")
      return list.hasBrackets ? "[\(text)]" : text
    } parse: { (content, folder) throws(InvalidValue) in
      guard case .json(.array(let values)) = content else {
        if let remedy { throw .wrongType(content, remedy: remedy) }
        return SettingElements(results: [.success(try element.parse(content, folder))], hasBrackets: false)
      }
      if values.isEmpty, let ifEmpty { throw InvalidValue("is empty", remedy: ifEmpty) }
      guard values.count <= most else {
        throw InvalidValue("has \(values.count) elements", remedy: "write \(most) at most")
      }
      return SettingElements(
        results: values.map { value in Result { () throws(InvalidValue) in try element.parse(.json(value), folder) } })
    }
  }
}

/// The elements of a list. Each is valid or invalid independently.
struct SettingElements<Element: Sendable>: Sendable {
  var results: [Result<Element, InvalidValue>] = []
  /// Whether the value is a list, not one value without brackets.
  var hasBrackets = true

  /// The problems of all invalid elements, with the advice of the first. Nil if all are valid.
  var invalid: InvalidValue? {
    let errors = results.compactMap { if case .failure(let error) = $0 { error } else { nil as InvalidValue? } }
    return errors.first.map { InvalidValue(errors.map(\.problem).joined(separator: ", and "), remedy: $0.remedy) }
  }
}

/// An object with a row for each member. ``SettingsReader/readObject(_:_:)`` reads the members.
typealias SettingObject = [JSONValue.Member]

extension SettingType where Value == SettingObject {
  /// Creates a type for an object with these members, or with members of any name if there are none.
  static func object(of members: [any SettingRow], remedy: String) -> SettingType {
    SettingType(isJSON5: true, members: members, write: { JSONValue.object($0).ascii }) {
      (content, _) throws(InvalidValue) in
      guard case .json(.object(let object)) = content else { throw .wrongType(content, remedy: remedy) }
      return object
    }
  }
}

extension SettingType where Value: CustomStringConvertible {
  /// Creates a type for an origin. An error of `make` quotes no credentials.
  static func originText(_ remedy: String, make: @escaping @Sendable (String) throws -> Value) -> SettingType {
    string(remedy) { (text, remedy) throws(InvalidValue) in
      do { return try make(text) } catch {
        guard !text.contains("?") else {
          throw InvalidValue("\(quotedURL(text)) has a query, which is no part of an origin", remedy: remedy)
        }
        guard isQuotable(text) || Printable.holdsCredentials(text) else {
          throw InvalidValue("\(quoted(text)) is not an origin", remedy: remedy)
        }
        throw InvalidValue("\(error)", remedy: nil)
      }
    }
  }
}

extension SettingType where Value == Bool {
  static let bool = SettingType(values: "true, false", write: { "\($0)" }) { (content, _) throws(InvalidValue) in
    let remedy = "write true or false"
    switch content {
    case .json(.bool(let value)): return value
    case .text("true"): return true
    case .text("false"): return false
    case .text(let text): throw InvalidValue("\(quoted(text)) is neither true nor false", remedy: remedy)
    default: throw .wrongType(content, remedy: remedy)
    }
  }
}

extension SettingType where Value: CaseIterable & RawRepresentable, Value.RawValue == String {
  static var word: SettingType {
    let words = Value.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    return text(
      "one of its values", remedy: "write one of \(words)", values: words.replacing("\"", with: ""),
      write: { "\"\($0.rawValue)\"" }, make: { Value(rawValue: $0) })
  }
}

extension SettingType where Value == String {
  static func label(_ remedy: String) -> SettingType {
    string(remedy) { (text, remedy) throws(InvalidValue) in
      guard (1...1024).contains(text.utf8.count) else { throw InvalidValue("is empty, or too long", remedy: remedy) }
      guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0 != "\u{7F}" }) else {
        throw InvalidValue("has a line break, a tab or another control character", remedy: remedy)
      }
      return text
    }
  }

  /// A file's path, in the configuration file relative to that file, elsewhere to the process's working directory.
  static let path = relative("write a file's path") { (text) throws(InvalidValue) in
    guard !looksLikeKey(text) else {
      throw InvalidValue("is a key or certificate itself", remedy: "write the path of a file that contains it")
    }
    guard !text.isEmpty, !text.utf8.contains(0) else {
      throw InvalidValue("is empty or contains a NUL", remedy: "write a file's path")
    }
    guard !text.hasPrefix("~") else { throw InvalidValue.unexpandedHome }
    return text
  }

  /// A Unix-domain socket's path. The system stores it in 108 bytes with its terminating NUL (unix(7)).
  static let socketPath = relative("write a path") { (text) throws(InvalidValue) in
    guard (1...107).contains(text.utf8.count), !text.utf8.contains(0) else {
      throw InvalidValue("is a path of \(text.utf8.count) bytes", remedy: "write a path of 1 to 107 bytes")
    }
    guard !text.hasPrefix("~") else { throw InvalidValue.unexpandedHome }
    return text
  }

  private static func relative(
    _ remedy: String, parse: @escaping @Sendable (String) throws(InvalidValue) -> String
  ) -> SettingType {
    let absolute = string(remedy) { (text, _) throws(InvalidValue) in try parse(text) }
    return SettingType(write: absolute.write) { (content, folder) throws(InvalidValue) in
      let path = try absolute.parse(content, nil)
      return if let folder, !path.hasPrefix("/") { try parse(folder + path) } else { path }
    }
  }
}

extension SettingType where Value == Int {
  static func integer(_ range: ClosedRange<Int>) -> SettingType {
    let remedy = "write a whole number from \(range.lowerBound) to \(range.upperBound)"
    return SettingType(values: "\(range.lowerBound) to \(range.upperBound)", write: { "\($0)" }) {
      (content, _) throws(InvalidValue) in
      guard let text = content.number else { throw .wrongType(content, remedy: remedy) }
      guard let number = Int(text) else { throw InvalidValue("\(quoted(text)) is not a whole number", remedy: remedy) }
      guard range.contains(number) else { throw InvalidValue("\(number) is out of range", remedy: remedy) }
      return number
    }
  }

  /// Creates a type for a size within `range`: `"64KB"`, `"64MB"`, or bytes. A kilobyte has 1024 bytes, as in nginx.
  static func size(_ range: ClosedRange<Int>) -> SettingType {
    let values = "\(sizeText(range.lowerBound)) to \(sizeText(range.upperBound))"
    let remedy = "write a size such as \"64KB\" or \"1MB\", from \(values)"
    return SettingType(values: values, write: { "\"\(sizeText($0))\"" }) { (content, _) throws(InvalidValue) in
      let isWhole = if case .json(let value) = content { value.integer != nil } else { false }
      guard let text = isWhole ? content.number : content.string else { throw .wrongType(content, remedy: remedy) }
      guard let size = bytes(of: text) else { throw InvalidValue("is not a size", remedy: remedy) }
      guard range.contains(size) else { throw InvalidValue("\(sizeText(size)) is out of range", remedy: remedy) }
      return size
    }
  }
}

extension SettingType where Value == UInt16 {
  /// A port. 0 selects a free one.
  static let port = SettingType<Int>.integer(0...65_535).map({ UInt16($0) }, back: { Int($0) })
}

private let sizeUnits: [(suffix: String, bytes: Int)] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)]

/// Returns `bytes` in the largest unit without a fraction.
func sizeText(_ bytes: Int) -> String {
  let unit = sizeUnits.first { bytes != 0 && bytes.isMultiple(of: $0.bytes) } ?? ("B", 1)
  return "\(bytes / unit.bytes)\(unit.suffix)"
}

/// Returns the number of bytes in `text`, or nil if it is malformed or beyond the range of `Int`.
private func bytes(of text: String) -> Int? {
  let unit = sizeUnits.first { text.hasSuffix($0.suffix) } ?? ("", 1)
  let digits = text.dropLast(unit.suffix.count)
  guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let number = Int(digits)
  else { return nil }
  let (bytes, overflow) = number.multipliedReportingOverflow(by: unit.bytes)
  return overflow ? nil : bytes
}

extension SettingType where Value == Double {
  static func number(_ range: ClosedRange<Double>, remedy: String) -> SettingType {
    let values = "\(numberText(range.lowerBound)) to \(numberText(range.upperBound))"
    return SettingType(values: values, write: { "\($0)" }) { (content, _) throws(InvalidValue) in
      guard let text = content.number else { throw .wrongType(content, remedy: remedy) }
      guard let number = Double(text) else { throw InvalidValue("\(quoted(text)) is not a number", remedy: remedy) }
      // Also false for NaN.
      guard range.contains(number) else { throw InvalidValue("\(shown(text)) is out of range", remedy: remedy) }
      return number
    }
  }
}

func numberText(_ number: Double) -> String { Int(exactly: number).map { "\($0)" } ?? "\(number)" }

extension SettingType where Value == Duration {
  /// Creates a type for a duration within `seconds`: a number with the unit `s`, `m`, `h` or `d`.
  package static func duration(seconds range: ClosedRange<Int>) -> SettingType {
    duration(
      milliseconds: range.lowerBound * 1000...range.upperBound * 1000, units: Array(timeUnits.dropLast()),
      example: "45s")
  }

  /// Creates a type for a duration within `milliseconds`: a number with the unit `ms`, `s`, `m`, `h` or `d`.
  static func duration(milliseconds range: ClosedRange<Int>) -> SettingType {
    duration(milliseconds: range, units: timeUnits, example: "500ms")
  }

  /// Creates a type for a number of milliseconds without a unit, as OpenTelemetry writes them.
  static func wholeMilliseconds(_ range: ClosedRange<Int>) -> SettingType {
    SettingType<Int>.integer(range).map({ .milliseconds($0) }, back: { milliseconds(of: $0) })
  }

  private static func duration(
    milliseconds range: ClosedRange<Int>, units: [TimeUnit], example: String
  ) -> SettingType {
    let bounds = "\(durationWords(milliseconds: range.lowerBound)) to \(durationWords(milliseconds: range.upperBound))"
    let remedy = "write a duration such as \"\(example)\", \"15m\", \"12h\" or \"30d\", from \(bounds)"
    let values = "\(durationText(milliseconds: range.lowerBound)) to \(durationText(milliseconds: range.upperBound))"
    return SettingType(values: values, write: { "\"\(durationText(milliseconds: milliseconds(of: $0)))\"" }) {
      (content, _) throws(InvalidValue) in
      guard let text = content.string else {
        guard content.number == nil else { throw InvalidValue("is a number without a unit", remedy: remedy) }
        throw .wrongType(content, remedy: remedy)
      }
      guard let milliseconds = milliseconds(of: text, units) else {
        throw InvalidValue("\(quoted(text)) is not a duration", remedy: remedy)
      }
      guard range.contains(milliseconds) else { throw InvalidValue("\(quoted(text)) is out of range", remedy: remedy) }
      return .milliseconds(milliseconds)
    }
  }
}

private typealias TimeUnit = (suffix: String, name: String, milliseconds: Int)

private let timeUnits: [TimeUnit] = [
  ("d", "day", 86_400_000), ("h", "hour", 3_600_000), ("m", "minute", 60_000), ("s", "second", 1000),
  ("ms", "millisecond", 1),
]

/// Returns `seconds` exactly, in the largest unit with a readable number: `90s`, `15m`.
package func durationText(_ seconds: Int) -> String { durationText(milliseconds: seconds * 1000) }

private func durationText(milliseconds: Int) -> String {
  let unit = readableUnit(milliseconds: milliseconds)
  return "\(milliseconds / unit.milliseconds)\(unit.suffix)"
}

/// Returns the duration in words: `1 minute`, `2 days`. Apple's limit also has Apple's words for it.
private func durationWords(milliseconds: Int) -> String {
  let unit = readableUnit(milliseconds: milliseconds)
  let count = milliseconds / unit.milliseconds
  let sixMonths = milliseconds == Settings.Token.cap * 1000 ? " (six months)" : ""
  return "\(count) \(unit.name)\(count == 1 ? "" : "s")\(sixMonths)"
}

private func readableUnit(milliseconds: Int) -> TimeUnit {
  let seconds: TimeUnit = ("s", "second", 1000)
  let fallback = milliseconds.isMultiple(of: 1000) ? seconds : ("ms", "millisecond", 1)
  return timeUnits.first {
    (1..<1000).contains(milliseconds / $0.milliseconds) && milliseconds.isMultiple(of: $0.milliseconds)
  } ?? fallback
}

private func milliseconds(of duration: Duration) -> Int { Int((duration / .milliseconds(1)).rounded()) }

/// Returns the milliseconds in `text`, or nil if it is malformed or beyond the range of `Int`.
private func milliseconds(of text: String, _ units: [TimeUnit]) -> Int? {
  let digits = text.prefix { ("0"..."9").contains($0) }
  guard let unit = units.first(where: { text.dropFirst(digits.count) == $0.suffix }), let number = Int(digits) else {
    return nil
  }
  let (milliseconds, overflow) = number.multipliedReportingOverflow(by: unit.milliseconds)
  return overflow ? nil : milliseconds
}
