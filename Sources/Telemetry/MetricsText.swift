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
