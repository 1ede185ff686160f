import Bytes

/// Metrics as Prometheus reads them: its text format, version 0.0.4.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>. It is written here because the
/// format has three kinds of lines. A client library would bring a registry and a lock for each counter. Here the
/// module that counts keeps nearly all counters, and they are read only for a scrape.
public struct MetricsText: Sendable {
  /// The media type to serve it as.
  public static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  /// What has been written.
  public private(set) var bytes: [UInt8] = []

  /// Nothing.
  public init() {}

  /// Adds metrics without labels, as they are in `source`.
  public mutating func add<Source>(_ readings: [MetricReading<Source>], of source: Source) {
    for reading in readings {
      begin(reading.metric)
      sample(of: reading.metric, reading.value(source))
    }
  }

  /// Begins a metric; its samples come next.
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
  /// As Go's `ParseFloat` reads it, which is what the format asks for.
  fileprivate var exposition: String {
    isNaN ? "NaN" : isInfinite ? (self > 0 ? "+Inf" : "-Inf") : "\(self)"
  }
}

extension [UInt8] {
  /// `text` with what would end its line, or its quotes, escaped.
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
