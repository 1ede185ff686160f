import Bytes
import HTTPServer
import JSON
import Telemetry
import Testing

@testable import TokenServer

@Suite("The README")
struct ReadmeTests {
  /// The repository, two folders above this source's.
  static let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")

  static func text(_ path: String = "README.md") throws -> String {
    String(decoding: try SmallFile.read("\(root)/\(path)", atMost: 1 << 20), as: UTF8.self)
  }

  /// The first cells of its table rows, where they hold one word of code.
  static func firstCells() throws -> Set<String> {
    Set(try text().matches(of: /(?m)^\| `([^` ]+)` \|/).map { String($0.output.1) })
  }

  @Test("has every setting with its variable and its default", arguments: Self.settings.map(\.path))
  func setting(_ path: String) throws {
    let setting = try #require(Settings.schema.settings[path])
    let row = "| `\(path)` | `\(setting.variable)` | \(setting.fallback.map { "`\($0)`" } ?? "–") |"
    #expect(try Self.text().contains("\n\(row) "), "A row is missing or out of date: \(row)")
  }

  @Test("has every limit with its default, its bounds and its reason", arguments: ServerLimits.table.map(\.path))
  func limit(_ path: String) throws {
    let row = try #require(ServerLimits.table.first { $0.path == path })
    let line = "| `\(path)` | \(row.known.fallback ?? "–") | \(Self.bounds(of: row)) | \(row.reason) |"
    #expect(try Self.text().contains("\n\(line)\n"), "A row is missing or out of date: \(line)")
  }

  @Test("has every error code with its status", arguments: ErrorCode.allCases)
  func errorCode(_ code: ErrorCode) throws {
    let row = "| `\(code.rawValue)` | \(code.status) |"
    #expect(try Self.text().contains("\n\(row) "), "A row is missing or out of date: \(row)")
  }

  @Test("has every endpoint with its methods")
  func endpoints() throws {
    let document = try #require(JSONReader.read(try GenerationFixture.make().openAPI.document))
    for path in try #require(document["paths"]).members {
      for method in path.value.members.map({ $0.name.text.uppercased() }) {
        #expect(try Self.text().contains("\n| `\(method) \(path.name)` |"))
      }
    }
  }

  @Test("has every metric with its type, its labels and its meaning", arguments: ServerMetrics.all.map(\.name))
  func metric(_ name: String) throws {
    let metric = try #require(ServerMetrics.all.first { $0.name == name })
    let labels = metric.labels.isEmpty ? "–" : metric.labels.map { "`\($0)`" }.joined(separator: ", ")
    let row = "| `\(name)` | \(metric.kind.rawValue) | \(labels) | \(metric.help) |"
    #expect(try Self.text().contains("\n\(row)\n"), "A row is missing or out of date: \(row)")
  }

  @Test("and its pages name only files that are there", arguments: pages)
  func files(_ page: String) throws {
    for match in try Self.text(page).matches(of: /`((Sources|Tests|Fuzz|config|deploy)\/[^`<]+)`/) {
      let path = String(match.output.1)
      let isThere: Bool
      do throws(SmallFile.Failure) {
        _ = try SmallFile.read("\(Self.root)/\(path)", atMost: 1 << 20)
        isThere = true
      } catch {
        isThere = error == .isDirectory
      }
      #expect(isThere, "\(page) names \(path)")
    }
  }

  @Test("has no setting, no error code and no metric that there is not")
  func nothingElse() throws {
    let cells = try Self.firstCells()
    let settings = cells.filter { $0.contains(".") }
    let metrics = cells.filter { $0.hasPrefix("musickit_") || $0.hasPrefix("process_") }
    let codes = cells.filter { $0.contains("_") && !$0.contains(".") }.subtracting(metrics)
    #expect(settings.subtracting(Settings.known.map(\.path)).isEmpty)
    #expect(codes.subtracting(ErrorCode.allCases.map(\.rawValue)).isEmpty)
    #expect(metrics.subtracting(ServerMetrics.all.map(\.name)).isEmpty)
  }

  static let pages =
    ["README.md"]
    + ["Architecture", "Cache", "Decisions", "Operations", "ThreatModel", "TokenServer"].map { name in
      "Sources/TokenServer/TokenServer.docc/\(name).md"
    }

  /// The settings that are no limits: those have a table of their own.
  static let settings = Settings.known.filter { !$0.path.hasPrefix("server.limits.") }

  static func bounds(of row: ServerLimits.Row) -> String {
    let write: (Int) -> String =
      switch row.unit {
      case .count: { "\($0)" }
      case .bytes: sizeText
      case .time: durationText
      }
    return "\(write(row.range.lowerBound)) to \(write(row.range.upperBound))"
  }
}
