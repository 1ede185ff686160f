import JSON
import TestSupport

/// Prometheus with the files of `deploy/prometheus`, which reads the metrics of one server. Only the target and the
/// intervals are replaced.
final class PrometheusServer {
  /// An alert rule as Prometheus has evaluated it.
  struct Rule {
    let name: String
    /// `ok`, `err`, or `unknown` before the first evaluation.
    let health: String
    /// `inactive`, `pending` or `firing`.
    let state: String
    /// The error of the last evaluation; nil if there was none.
    let error: String?
    /// The summaries of the active alerts.
    let summaries: [String]
  }

  private let process: ChildProcess
  private let directory: TemporaryDirectory
  let url: String

  /// Starts Prometheus, and waits until it responds to queries.
  init(_ target: RunningServer) throws {
    directory = try TemporaryDirectory()
    let port = UpstreamGround.fixedPort
    url = "http://127.0.0.1:\(port)"
    let folder = "\(Repository.path)/deploy/prometheus"
    try directory.write(try TextFile.read("\(folder)/alerts.yaml"), to: "musickit-token-server.yaml")
    let configuration = try Self.configuration(try TextFile.read("\(folder)/scrape.yaml"), target)
    let file = try directory.write(configuration, to: "prometheus.yml")
    process = try ChildProcess(
      "prometheus",
      [
        "--config.file=\(file)", "--storage.tsdb.path=\(directory.path(of: "data"))",
        "--web.listen-address=127.0.0.1:\(port)", "--log.level=warn",
      ])
    try eventually("Prometheus is ready") {
      guard !process.hasEnded else { throw TestFailure("Prometheus ended: \(process.standardError)") }
      return (try? ParsedResponse(curl: ["\(url)/-/ready"]))?.status == 200
    }
  }

  deinit { process.kill() }

  private static func configuration(_ scrape: String, _ target: RunningServer) throws -> String {
    guard let admin = target.adminURL, admin.hasPrefix("http://") else {
      throw TestFailure("The server has no admin listener.")
    }
    let replacements = [
      (old: "- 127.0.0.1:8081", new: "- \(admin.dropFirst(7))"),
      (old: "scrape_interval: 30s", new: "scrape_interval: 1s"),
    ]
    let text = try replacements.reduce(scrape) { text, replacement in
      guard text.contains(replacement.old) else { throw TestFailure("scrape.yaml has no \(replacement.old)") }
      return text.replacing(replacement.old, with: replacement.new)
    }
    return "global:\n  evaluation_interval: 1s\n" + text
  }

  /// The value of an expression's only series; nil if the expression has no series.
  func value(of expression: String) throws -> Double? {
    let data = try get("/api/v1/query", "-G", "--data-urlencode", "query=\(expression)")
    guard case .array(let series)? = data["result"] else { throw TestFailure("This is no result: \(data)") }
    guard series.count < 2 else { throw TestFailure("There is more than one series: \(data)") }
    guard case .array(let sample)? = series.first?["value"], let value = sample.last?.string else { return nil }
    return Double(value)
  }

  /// The number of series of an expression. Throws Prometheus's error if the expression is wrong.
  func seriesCount(of expression: String) throws -> Int {
    let data = try get("/api/v1/query", "-G", "--data-urlencode", "query=\(expression)")
    return try Self.elements(data, "result").count
  }

  /// All alert rules.
  func rules() throws -> [Rule] {
    let data = try get("/api/v1/rules")
    return try Self.elements(data, "groups").flatMap { group in
      try Self.elements(group, "rules").map { rule in
        Rule(
          name: rule["name"]?.string ?? "", health: rule["health"]?.string ?? "", state: rule["state"]?.string ?? "",
          error: rule["lastError"]?.string,
          summaries: try Self.elements(rule, "alerts").compactMap { $0["annotations"]?["summary"]?.string })
      }
    }
  }

  private static func elements(_ value: JSONValue, _ name: String) throws -> [JSONValue] {
    guard case .array(let elements)? = value[name] else { throw TestFailure("There is no list \(name): \(value)") }
    return elements
  }

  /// The data in a response of the API.
  private func get(_ path: String, _ options: String...) throws -> JSONValue {
    let response = try ParsedResponse(curl: options + ["\(url)\(path)"])
    guard response.status == 200, let data = response.json?["data"] else {
      throw TestFailure("Prometheus refuses \(path): \(response.text)")
    }
    return data
  }
}
