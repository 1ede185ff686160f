/// Why a value does not suit a setting, before it is known which setting that is.
struct InvalidValue: Error, Equatable, CustomStringConvertible {
  /// `"80a" is not a whole number`.
  let problem: String
  /// `write one from 0 to 65535`; nil if the problem is sentences that say it.
  let remedy: String?

  /// The problem, and the remedy if there is one.
  var description: String { problem + (remedy.map { "; \($0)." } ?? "") }
}

extension InvalidValue {
  /// A value of another type than the wanted one.
  static func wrongType(_ value: JSON5Value, remedy: String) -> InvalidValue {
    InvalidValue(problem: value == .null ? "is null" : "is \(value.kind)", remedy: remedy)
  }
}
