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
