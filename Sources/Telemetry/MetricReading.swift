/// A metric without labels, and where its value is found: definition and measurement in one line.
public struct MetricReading<Source>: Sendable {
  /// Which metric.
  public let metric: Metric
  let value: @Sendable (Source) -> Double

  /// A metric whose value is a number of `Source`.
  public init(
    _ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping @Sendable (Source) -> Double
  ) {
    metric = Metric(kind, name, help)
    self.value = value
  }

  /// A metric whose value is a whole number of `Source`.
  public init(_ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping @Sendable (Source) -> Int) {
    self.init(kind, name, help) { Double(value($0)) }
  }

  /// A metric that is 1 if something is true of `Source`, else 0.
  public init(_ name: String, _ help: String, _ value: @escaping @Sendable (Source) -> Bool) {
    self.init(.gauge, name, help) { value($0) ? 1.0 : 0.0 }
  }
}
