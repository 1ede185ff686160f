import Bytes
import HTTPServer
import JSON
import Telemetry
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("The documents")
struct DocumentTests {
  @Test("configuration.md has every setting with its variable and its default", arguments: Self.settings.map(\.path))
  func setting(_ path: String) throws {
    let setting = try #require(Settings.schema.settings[path])
    let row = "| `\(path)` | `\(setting.variable)` | \(setting.fallback.map { "`\($0)`" } ?? "–") |"
    #expect(try Self.configuration().contains("\n\(row) "), "A row is missing or out of date: \(row)")
  }

  @Test(
    "configuration.md has every limit with its default, its bounds and its reason",
    arguments: ServerLimits.table.map(\.path))
  func limit(_ path: String) throws {
    let row = try #require(ServerLimits.table.first { $0.path == path })
    let line = "| `\(path)` | \(row.known.fallback ?? "–") | \(Self.bounds(of: row)) | \(row.reason) |"
    #expect(try Self.configuration().contains("\n\(line)\n"), "A row is missing or out of date: \(line)")
  }

  @Test("endpoints.md has every error code with its status", arguments: ErrorCode.allCases)
  func errorCode(_ code: ErrorCode) throws {
    let row = "| `\(code.rawValue)` | \(code.status) |"
    #expect(try Self.endpoints().contains("\n\(row) "), "A row is missing or out of date: \(row)")
  }

  @Test("endpoints.md has every endpoint with its methods")
  func endpoint() throws {
    let document = try #require(JSONReader.read(try GenerationFixture.make().openAPI.document))
    for path in try #require(document["paths"]).members {
      for method in path.value.members.map({ $0.name.text.uppercased() }) {
        #expect(try Self.endpoints().contains("\n| `\(method) \(path.name)` |"))
      }
    }
  }

  @Test(
    "metrics.md has every metric with its type, its labels and its meaning",
    arguments: ServerMetrics.all.map(\.name))
  func metric(_ name: String) throws {
    let metric = try #require(ServerMetrics.all.first { $0.name == name })
    let labels = metric.labels.isEmpty ? "–" : metric.labels.map { "`\($0)`" }.joined(separator: ", ")
    let row = "| `\(name)` | \(metric.kind.rawValue) | \(labels) | \(metric.help) |"
    #expect(try Self.metrics().contains("\n\(row)\n"), "A row is missing or out of date: \(row)")
  }

  @Test("have no setting, no error code and no metric that does not exist")
  func nothingElse() throws {
    let settings = Self.firstCells(of: try Self.configuration()).filter { $0.contains(".") }
    let codes = Self.firstCells(of: try Self.endpoints()).subtracting(["code"])
    let metrics = Self.firstCells(of: try Self.metrics()).filter { $0.contains("_") }
    #expect(settings.subtracting(Settings.known.map(\.path)).isEmpty)
    #expect(codes.subtracting(ErrorCode.allCases.map(\.rawValue)).isEmpty)
    #expect(metrics.subtracting(ServerMetrics.all.map(\.name)).isEmpty)
  }

  @Test("name only files that exist", arguments: Document.all)
  func files(_ page: String) throws {
    let paths = /`((Sources|Tests|Fuzz|Benchmarks|config|deploy|docs)\/[^`<\s]+)`/
    for match in try Document.text(page).matches(of: paths) {
      let path = String(match.output.1)
      #expect(Document.exists(path), "\(page) names \(path)")
    }
  }

  @Test("README.md has at most 12,000 bytes")
  func size() throws {
    #expect(try Document.text("README.md").utf8.count <= 12_000)
  }

  private static func configuration() throws -> String { try Document.text("docs/configuration.md") }
  private static func endpoints() throws -> String { try Document.text("docs/endpoints.md") }
  private static func metrics() throws -> String { try Document.text("docs/metrics.md") }

  /// The first cells of the table rows, where they hold one word of code.
  private static func firstCells(of text: String) -> Set<String> {
    Set(text.matches(of: /(?m)^\| `([^` ]+)` \|/).map { String($0.output.1) })
  }

  /// The settings that are no limits: those have a table of their own.
  private static let settings = Settings.known.filter { !$0.path.hasPrefix("server.limits.") }

  private static func bounds(of row: ServerLimits.Row) -> String {
    let write: (Int) -> String =
      switch row.unit {
      case .count: { "\($0)" }
      case .bytes: sizeText
      case .time: durationText
      }
    return "\(write(row.range.lowerBound)) to \(write(row.range.upperBound))"
  }
}
