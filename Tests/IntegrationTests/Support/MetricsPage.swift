import Bytes
import JSON
import TestSupport

/// The content of `/metrics`, as Prometheus's own parser for Python reads it.
struct MetricsPage {
  let text: String
  /// The names of all metrics.
  let names: Set<String>
  private let samples: [JSONValue]

  /// Throws the errors of the parser.
  init(of server: RunningServer) throws {
    let response = try server.admin("/metrics")
    guard response.status == 200, response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8" else {
      throw TestFailure("This is no page of metrics: \(response)")
    }
    text = response.text
    let result = try run(Repository.python, [Repository.script("read_metrics.py")], input: response.body)
    guard result.status == 0, let json = JSONReader.read(result.standardOutput),
      case .array(let metrics) = json["metrics"], case .array(let samples) = json["samples"]
    else {
      throw TestFailure("\(result.stderr)\n\(text)")
    }
    names = Set(metrics.compactMap { $0["name"]?.string })
    self.samples = samples
  }

  /// The value of one sample; nil without such a sample.
  subscript(name: String, labels: [String: String] = [:]) -> Double? {
    let sample = samples.first { $0["name"]?.string == name && Self.labels(of: $0) == labels }
    guard case .number(let text) = sample?["value"] else { return nil }
    return Double(text)
  }

  /// All values of a label.
  func values(of label: String) -> Set<String> {
    Set(samples.compactMap { Self.labels(of: $0)[label] })
  }

  private static func labels(of sample: JSONValue) -> [String: String] {
    let members = sample["labels"]?.members ?? []
    return Dictionary(members.map { ($0.name.text, $0.value.string ?? "") }) { first, _ in first }
  }
}
