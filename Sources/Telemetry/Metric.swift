/// What a figure is called and what it means, as Prometheus wants to know it.
public struct Metric: Sendable, Equatable {
  /// What can be done with the figure.
  public enum Kind: String, Sendable {
    /// It only grows; one that falls has begun again at 0.
    case counter
    /// It goes up and down.
    case gauge
    /// Counters of what lies below given bounds.
    case histogram
  }

  /// Its name, with its unit; a counter's ends in `_total`.
  public let name: String
  /// What can be done with it.
  public let kind: Kind
  /// What it counts or measures, on one line.
  public let help: String
  /// The names of what it is broken down by.
  public let labels: [String]

  /// A metric.
  public init(_ kind: Kind, _ name: String, _ help: String, labels: [String] = []) {
    self.kind = kind
    self.name = name
    self.help = help
    self.labels = labels
  }
}
