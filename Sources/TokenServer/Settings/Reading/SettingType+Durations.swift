extension SettingType where Value == Duration {
  /// A span of time within `seconds`: a number with its unit, `s`, `m`, `h` or `d`.
  static func duration(seconds range: ClosedRange<Int>) -> SettingType {
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
    let bounds = "\(durationText(milliseconds: range.lowerBound)) to \(durationText(milliseconds: range.upperBound))"
    let remedy = "write a duration such as \"\(example)\", \"15m\", \"12h\" or \"30d\", from \(bounds)"
    return scalar(write: { "\"\(durationText(milliseconds: milliseconds(of: $0)))\"" }) {
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

private typealias Unit = (suffix: String, milliseconds: Int)

private let units: [Unit] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)]

/// `seconds` in the largest unit that says it exactly in a number that one can still read: `90s`, `15m`.
func durationText(_ seconds: Int) -> String { durationText(milliseconds: seconds * 1000) }

private func durationText(milliseconds: Int) -> String {
  let seconds: Unit = ("s", 1000)
  let fallback = milliseconds.isMultiple(of: 1000) ? seconds : ("ms", 1)
  let unit =
    units.first {
      (1..<1000).contains(milliseconds / $0.milliseconds) && milliseconds.isMultiple(of: $0.milliseconds)
    } ?? fallback
  return "\(milliseconds / unit.milliseconds)\(unit.suffix)"
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
