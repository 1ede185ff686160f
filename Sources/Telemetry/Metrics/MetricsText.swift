import Bytes

/// Metrics in the text format of Prometheus, version 0.0.4.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>. The project implements the format
/// itself, because the format has three kinds of lines. A client library would bring a registry and a lock for each
/// counter. Here the module that counts keeps nearly all counters, and only a scrape reads them.
public struct MetricsText: Sendable {
  /// The media type of the format.
  public static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  /// The text so far.
  public private(set) var bytes: [UInt8] = []

  /// Creates an empty text.
  public init() {}

  /// Adds metrics with their values in `source`.
  public mutating func add<Source>(_ readings: [MetricReading<Source>], of source: Source) {
    for reading in readings {
      begin(reading.metric)
      for sample in reading.samples(source) { self.sample(of: reading.metric, sample.value, sample.labels) }
    }
  }

  /// Begins a metric; the caller adds its samples next.
  public mutating func begin(_ metric: Metric) {
    bytes.append(contentsOf: "# HELP \(metric.name) ".utf8)
    bytes.append(escaping: metric.help, quotes: false)
    bytes.append(contentsOf: "\n# TYPE \(metric.name) \(metric.kind.rawValue)\n".utf8)
  }

  /// Adds a sample of the metric that was begun last.
  ///
  /// - Parameter labels: The values of `metric.labels`, in that order.
  public mutating func sample(of metric: Metric, _ value: Double, _ labels: [MetricLabel] = []) {
    line(metric.name, metric.labels(labels), value)
  }

  /// Adds a histogram of the metric that was begun last, which has no labels.
  public mutating func histogram(of metric: Metric, _ histogram: DurationHistogram) {
    self.histogram(of: metric, [], histogram)
  }

  /// Adds a histogram of the metric that was begun last.
  mutating func histogram(of metric: Metric, _ labels: [MetricLabel], _ histogram: DurationHistogram) {
    let labels = metric.labels(labels)
    for (bound, count) in histogram.cumulative {
      line(metric.name + "_bucket", labels + [("le", bound.map { "\($0)" } ?? "+Inf")], Double(count))
    }
    line(metric.name + "_sum", labels, histogram.sum.seconds)
    line(metric.name + "_count", labels, Double(histogram.count))
  }

  private mutating func line(_ name: String, _ labels: [(name: String, value: String)], _ value: Double) {
    bytes.append(contentsOf: name.utf8)
    for (index, label) in labels.enumerated() {
      bytes.append(contentsOf: "\(index == 0 ? "{" : ",")\(label.name)=\"".utf8)
      bytes.append(escaping: label.value, quotes: true)
      bytes.append("\"")
    }
    if !labels.isEmpty { bytes.append("}") }
    // Whole numbers have no fraction. Other values are written as the format requires.
    bytes.append(contentsOf: " \(Int(exactly: value).map { "\($0)" } ?? value.exposition)\n".utf8)
  }
}

extension Metric {
  fileprivate func labels(_ values: [MetricLabel]) -> [(name: String, value: String)] {
    zip(labels, values).map { ($0, $1.text) }
  }
}

extension Double {
  /// The number in the syntax of Go's `ParseFloat`, which the format requires.
  fileprivate var exposition: String {
    isNaN ? "NaN" : isInfinite ? (self > 0 ? "+Inf" : "-Inf") : "\(self)"
  }
}

extension [UInt8] {
  /// Appends `text`, with backslashes and line feeds escaped, and double quotes too if `quotes` is true.
  fileprivate mutating func append(escaping text: String, quotes: Bool) {
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\\"): append("\\\\")
      case UInt8(ascii: "\n"): append("\\n")
      case UInt8(ascii: "\"") where quotes: append("\\\"")
      default: append(byte)
      }
    }
  }
}

/// The name and meaning of a metric for Prometheus.
public struct Metric: Sendable, Equatable {
  /// The metric types of Prometheus.
  public enum Kind: String, Sendable {
    /// A value that only grows. A value that falls has restarted at 0.
    case counter
    /// A value that can rise and fall.
    case gauge
    /// Cumulative counters for given upper bounds.
    case histogram
  }

  /// The name, with the unit. The name of a counter ends in `_total`.
  public let name: String
  /// The metric type.
  public let kind: Kind
  /// The description, on one line.
  public let help: String
  /// The names of the labels.
  public let labels: [String]

  /// Creates a metric.
  public init(_ kind: Kind, _ name: String, _ help: String, labels: [String] = []) {
    self.kind = kind
    self.name = name
    self.help = help
    self.labels = labels
  }
}

/// The value of a metric's label.
///
/// Each value is a time series that the monitoring system keeps for weeks, so there must be few values, and a client
/// must not be able to choose one. Hence a word is a literal of the program, and the only case with a `String` states
/// where the string must come from.
public enum MetricLabel: Sendable {
  /// A literal of the program, such as a route's template or a method's name.
  case word(StaticString)
  /// A number, such as a status code.
  case number(Int)
  /// A name that the operator wrote in the settings, such as a client's id.
  case configured(String)

  var text: String {
    switch self {
    case .word(let word): "\(word)"
    case .number(let number): "\(number)"
    case .configured(let name): name
    }
  }
}

/// A metric and the function that reads its samples: definition and measurement in one place.
public struct MetricReading<Source>: Sendable {
  /// The values of the metric's labels in their order, and the value of the metric.
  public typealias Sample = (labels: [MetricLabel], value: Double)

  /// The metric.
  public let metric: Metric
  let samples: @Sendable (Source) -> [Sample]

  /// Creates a metric with labels.
  public init(
    _ kind: Metric.Kind, _ name: String, _ help: String, labels: [String],
    _ samples: @escaping @Sendable (Source) -> [Sample]
  ) {
    metric = Metric(kind, name, help, labels: labels)
    self.samples = samples
  }

  /// Creates a metric with a sample for each case of an enumeration that has a value.
  ///
  /// - Parameter word: Returns the label's value for a case.
  public init<Case: CaseIterable & Sendable>(
    _ kind: Metric.Kind, _ name: String, _ help: String, by label: String, of _: Case.Type,
    _ word: @escaping @Sendable (Case) -> MetricLabel, _ value: @escaping @Sendable (Source, Case) -> Int?
  ) {
    self.init(kind, name, help, labels: [label]) { source in
      Case.allCases.compactMap { each in value(source, each).map { ([word(each)], Double($0)) } }
    }
  }

  /// Creates a metric with a floating-point value of `Source`.
  public init(
    _ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping @Sendable (Source) -> Double
  ) {
    self.init(kind, name, help, labels: []) { [([], value($0))] }
  }

  /// Creates a metric with an integer value of `Source`.
  public init(_ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping @Sendable (Source) -> Int) {
    self.init(kind, name, help) { Double(value($0)) }
  }

  /// Creates a gauge that is 1 if a condition of `Source` is true, else 0.
  public init(_ name: String, _ help: String, _ value: @escaping @Sendable (Source) -> Bool) {
    self.init(.gauge, name, help) { value($0) ? 1.0 : 0.0 }
  }
}
