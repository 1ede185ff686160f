import Bytes
import JSON
import TestSupport

/// The content of `/metrics`.
struct MetricsPage {
  let text: String
  private let lines: [Substring]

  private struct Sample: Hashable {
    let name: String
    let labels: [String: String]
    let value: Double
  }

  init(of server: RunningServer) throws {
    let response = try server.admin("/metrics")
    guard response.status == 200, response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8" else {
      throw TestFailure("This is no page of metrics: \(response)")
    }
    text = response.text
    lines = text.split(separator: "\n").filter { !$0.hasPrefix("#") }
  }

  /// The value of one sample; nil without such a sample.
  subscript(name: String, labels: [String: String] = [:]) -> Double? {
    lines.lazy.filter { $0.hasPrefix(name) }.compactMap(Self.sample).first { $0.name == name && $0.labels == labels }?
      .value
  }

  /// All values of a label.
  func values(of label: String) -> Set<String> { Set(lines.compactMap { Self.sample($0)?.labels[label] }) }

  /// The names of all metrics, as Prometheus's own parser for Python reads the page. Throws the errors of that parser, and
  /// where it reads a sample otherwise than this type.
  func judged() throws -> Set<String> {
    let result = try run(Repository.python, [Repository.script("read_metrics.py")], input: Array(text.utf8))
    guard result.status == 0, let json = JSONReader.read(result.standardOutput),
      case .array(let metrics) = json["metrics"], case .array(let others) = json["samples"]
    else { throw TestFailure("\(result.stderr)\n\(text)") }
    let read = others.map { other in
      let labels = (other["labels"]?.members ?? []).map { ($0.name.text, $0.value.string ?? "") }
      let value: Double? = if case .number(let text) = other["value"] { Double(text) } else { nil }
      return Sample(
        name: other["name"]?.string ?? "", labels: Dictionary(labels) { first, _ in first }, value: value ?? .nan)
    }
    let own = Set(lines.compactMap(Self.sample))
    guard Set(read) == own, read.count == lines.count else {
      throw TestFailure("Prometheus reads \(own.symmetricDifference(read)) otherwise.")
    }
    return Set(metrics.compactMap { $0["name"]?.string })
  }

  /// The sample of a line such as `name{label="value",other="value"} 1`.
  private static func sample(_ line: Substring) -> Sample? {
    guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else { return nil }
    let series = line[..<space]
    guard let brace = series.firstIndex(of: "{") else {
      return Sample(name: String(series), labels: [:], value: value)
    }
    // No label that a test looks at has a quotation mark or a backslash in its value.
    let parts = series[brace...].dropFirst().dropLast().split(separator: "\"", omittingEmptySubsequences: false)
    let names = stride(from: 0, to: parts.count - 1, by: 2).map { parts[$0].drop { $0 == "," }.dropLast() }
    let values = stride(from: 1, to: parts.count, by: 2).map { parts[$0] }
    let labels = zip(names, values).map { (String($0), String($1)) }
    return Sample(
      name: String(series[..<brace]), labels: Dictionary(labels) { first, _ in first }, value: value)
  }
}
