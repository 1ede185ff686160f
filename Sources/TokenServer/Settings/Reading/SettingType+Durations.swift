extension SettingType where Value == Duration {
  /// A span of time within `seconds`: a number with its unit, `s`, `m`, `h` or `d`.
  static func duration(seconds range: ClosedRange<Int>) -> SettingType {
    let bounds = "\(durationText(range.lowerBound)) to \(durationText(range.upperBound))"
    let remedy = "write a duration such as \"45s\", \"15m\", \"12h\" or \"30d\", from \(bounds)"
    return scalar(write: { "\"\(durationText(Int($0.components.seconds)))\"" }) { (content) throws(InvalidValue) in
      let text: String
      switch content {
      case .text(let value), .json(.string(let value)): text = value
      case .json(.integer), .json(.number):
        throw InvalidValue(problem: "is a number without a unit", remedy: remedy)
      case .json(let other): throw .wrongType(other, remedy: remedy)
      case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
      }
      guard let seconds = seconds(of: text) else {
        throw InvalidValue(problem: "\(quoted(text)) is not a duration", remedy: remedy)
      }
      guard range.contains(seconds) else {
        throw InvalidValue(problem: "\(quoted(text)) is out of range", remedy: remedy)
      }
      return .seconds(seconds)
    }
  }
}

private let units: [(suffix: Character, seconds: Int)] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)]

/// `seconds` in the largest unit that says it exactly in a number that one can still read: `90s`, `15m`.
func durationText(_ seconds: Int) -> String {
  let unit = units.first { (1..<1000).contains(seconds / $0.seconds) && seconds.isMultiple(of: $0.seconds) } ?? ("s", 1)
  return "\(seconds / unit.seconds)\(unit.suffix)"
}

/// The seconds that `text` stands for; nil if it is malformed or beyond an `Int`.
private func seconds(of text: String) -> Int? {
  guard let unit = units.first(where: { text.last == $0.suffix }) else { return nil }
  let digits = text.dropLast()
  guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let number = Int(digits)
  else { return nil }
  let (seconds, overflow) = number.multipliedReportingOverflow(by: unit.seconds)
  return overflow ? nil : seconds
}
