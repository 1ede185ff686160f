/// The value of a metric's label.
///
/// Each value is a time series that the monitoring keeps for weeks, so there must be few of them, and nothing that a
/// client sent may be one. Hence a word is a literal of the program, and the one label of a `String` says where that has
/// to be from.
public enum MetricLabel: Sendable {
  /// A route's template or a method's name, for instance.
  case word(StaticString)
  /// A status code, for instance.
  case number(Int)
  /// A name that the operator has written into the settings: a client's id, for instance.
  case configured(String)

  var text: String {
    switch self {
    case .word(let word): "\(word)"
    case .number(let number): "\(number)"
    case .configured(let name): name
    }
  }
}
