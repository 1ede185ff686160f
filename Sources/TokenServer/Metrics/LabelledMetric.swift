import Telemetry

/// A metric with labels, and the function that reads its samples: definition and measurement in one place.
struct LabelledMetric<Source>: Sendable {
  /// The values of the metric's labels in their order, and the value of the metric.
  typealias Sample = (labels: [MetricLabel], value: Double)

  let metric: Metric
  fileprivate let samples: @Sendable (Source) -> [Sample]

  init(
    _ kind: Metric.Kind, _ name: String, _ help: String, labels: [String],
    _ samples: @escaping @Sendable (Source) -> [Sample]
  ) {
    metric = Metric(kind, name, help, labels: labels)
    self.samples = samples
  }

  /// Creates a metric with a sample for each case of an enumeration that has a value.
  ///
  /// - Parameter word: Returns the label's value for a case.
  init<Case: CaseIterable & Sendable>(
    _ kind: Metric.Kind, _ name: String, _ help: String, by label: String, of _: Case.Type,
    _ word: @escaping @Sendable (Case) -> MetricLabel, _ value: @escaping @Sendable (Source, Case) -> Int?
  ) {
    self.init(kind, name, help, labels: [label]) { source in
      Case.allCases.compactMap { each in value(source, each).map { ([word(each)], Double($0)) } }
    }
  }
}

extension MetricsText {
  mutating func add<Source>(_ metrics: [LabelledMetric<Source>], of source: Source) {
    for metric in metrics {
      begin(metric.metric)
      for sample in metric.samples(source) { self.sample(of: metric.metric, sample.value, sample.labels) }
    }
  }
}
