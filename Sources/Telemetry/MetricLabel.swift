/// The value of a metric's label.
///
/// Each value is a time series that the monitoring keeps for weeks, so there must be few of them, and nothing that a
/// client sent may be one. Hence there is no label of a `String`: a word is a literal of the program.
public enum MetricLabel: Sendable {
  /// A route's template or a method's name, for instance.
  case word(StaticString)
  /// A status code, for instance.
  case number(Int)

  var text: String {
    switch self {
    case .word(let word): "\(word)"
    case .number(let number): "\(number)"
    }
  }
}
