import Bytes

/// Metrics in the text format of Prometheus, version 0.0.4.
///
/// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>: three kinds of lines. A client library
/// would bring a registry and a lock for each counter. Here the module that counts keeps nearly all counters, and only a
/// scrape reads them.
struct MetricsText {
  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  private(set) var bytes: [UInt8] = []

  /// Adds metrics with their samples in `source`.
  mutating func add<Source>(_ readings: [MetricReading<Source>], of source: Source) {
    for reading in readings {
      let metric = reading.metric
      bytes.append(contentsOf: "# HELP \(metric.name) ".utf8)
      bytes.append(escaping: metric.help, quotes: false)
      bytes.append(contentsOf: "\n# TYPE \(metric.name) \(metric.kind)\n".utf8)
      for sample in reading.samples(source) {
        let labels = zip(metric.labels, sample.labels).map { ($0, $1.text) }
        for part in sample.value.parts {
          line(metric.name + part.suffix, labels + (part.bound.map { [("le", $0)] } ?? []), part.number)
        }
      }
    }
  }

  private mutating func line(_ name: String, _ labels: [(name: String, value: String)], _ value: Double) {
    bytes.append(contentsOf: name.utf8)
    for (index, label) in labels.enumerated() {
      bytes.append(contentsOf: "\(index == 0 ? "{" : ",")\(label.name)=\"".utf8)
      bytes.append(escaping: label.value, quotes: true)
      bytes.append("\"")
    }
    if !labels.isEmpty { bytes.append("}") }
    // Whole numbers have no fraction.
    bytes.append(contentsOf: " \(Int(exactly: value).map { "\($0)" } ?? value.exposition)\n".utf8)
  }
}

extension Double {
  /// The number in the syntax of Go's `ParseFloat`, which the format requires.
  fileprivate var exposition: String { isNaN ? "NaN" : isInfinite ? (self > 0 ? "+Inf" : "-Inf") : "\(self)" }
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
struct Metric: Sendable {
  /// The name, with the unit. The name of a counter, and of nothing else, ends in `_total`.
  let name: String
  /// The description, on one line.
  let help: String
  let labels: [String]
  let isHistogram: Bool

  var kind: String { isHistogram ? "histogram" : name.hasSuffix("_total") ? "counter" : "gauge" }
}

/// The value of a metric's label.
///
/// Each value is a time series that the monitoring system keeps for weeks, so there must be few, and a client must not be
/// able to choose one. Hence the only case with a `String` states where it must come from.
enum MetricLabel {
  case word(StaticString)
  case number(Int)
  /// A name that the operator wrote in the settings, such as a client's id, or the name of a case.
  case configured(String)

  fileprivate var text: String {
    switch self {
    case .word(let word): "\(word)"
    case .number(let number): "\(number)"
    case .configured(let name): name
    }
  }
}

/// A line of a value: what follows the metric's name, the label `le`, and the number.
typealias MetricPart = (suffix: String, bound: String?, number: Double)

/// A value of a metric: a number, a condition (1 or 0), a histogram, or nil for no sample.
protocol MetricValue: Sendable {
  var parts: [MetricPart] { get }
}

extension Double: MetricValue { var parts: [MetricPart] { [("", nil, self)] } }
extension Int: MetricValue { var parts: [MetricPart] { Double(self).parts } }
extension Bool: MetricValue { var parts: [MetricPart] { (self ? 1 : 0).parts } }
extension Optional: MetricValue where Wrapped: MetricValue { var parts: [MetricPart] { self?.parts ?? [] } }

/// A metric and the function that reads its samples: definition and measurement in one place.
struct MetricReading<Source>: Sendable {
  /// The values of the metric's labels in their order, and the value of the metric.
  typealias Sample = (labels: [MetricLabel], value: any MetricValue)

  let metric: Metric
  fileprivate let samples: @Sendable (Source) -> [Sample]

  init(
    _ name: String, _ help: String, labels: [String], isHistogram: Bool = false,
    _ samples: @escaping @Sendable (Source) -> [Sample]
  ) {
    metric = Metric(name: name, help: help, labels: labels, isHistogram: isHistogram)
    self.samples = samples
  }

  init(
    _ name: String, _ help: String, isHistogram: Bool = false,
    _ value: @escaping @Sendable (Source) -> some MetricValue
  ) {
    self.init(name, help, labels: [], isHistogram: isHistogram) { [([], value($0))] }
  }

  /// Creates a metric with a sample for each case of an enumeration. The label is its name, or what `named` returns.
  init<Case: CaseIterable & Sendable>(
    _ name: String, _ help: String, by label: String, of _: Case.Type,
    named: @escaping @Sendable (Case) -> String = { "\($0)" },
    _ value: @escaping @Sendable (Source, Case) -> some MetricValue
  ) {
    self.init(name, help, labels: [label]) { source in
      Case.allCases.map { ([.configured(named($0))], value(source, $0)) }
    }
  }
}
