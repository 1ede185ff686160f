// Writes the tables of settings, limits, endpoints, error codes and metrics into the documents, and the example
// configuration. It generates all of them from the code: `make docs`. With `--check` it changes nothing, prints the
// name of each file that is out of date, and exits with 1 if there is any: `make lint`.
//
// The rows are internal to their modules, so this program needs a debug build.

#if DEBUG
  import Glibc

  @main
  enum ReferenceTables {
    static func main() throws {
      let isCheck = CommandLine.arguments.contains("--check")
      var isStale = false
      for (path, text) in try files() {
        let present = try Repository.read(path)
        guard present != text else { continue }
        isStale = true
        if isCheck {
          print("\(path) is out of date: run make docs.")
        } else {
          try Repository.write(text, to: path)
          print("\(path) is written.")
        }
      }
      if isCheck, isStale { exit(1) }
    }

    /// Returns the generated files, each with its expected content.
    private static func files() throws -> [(path: String, text: String)] {
      let endpoints = try EndpointTables()
      let tables = [
        (
          "docs/configuration.md",
          ["settings": SettingTables.settings, "limits": SettingTables.limits]
        ),
        ("docs/access.md", ["client": SettingTables.client]),
        ("docs/keys.md", ["key": SettingTables.key]),
        (
          "docs/endpoints.md",
          ["endpoints": endpoints.public, "admin": endpoints.admin, "errors": ErrorTable.text]
        ),
        ("docs/metrics.md", ["metrics": MetricTable.text]),
      ]
      return try tables.map { path, tables in
        (path, try Repository.read(path).replacingRegions(tables, of: path))
      } + [("config/example.json5", ExampleConfiguration.text)]
    }
  }

  /// A Markdown table.
  struct MarkdownTable {
    private(set) var text: String

    init(_ columns: String...) {
      text = Self.line(columns) + Self.line(columns.map { _ in "---" })
    }

    mutating func add(_ cells: String...) {
      text += Self.line(cells)
    }

    private static func line(_ cells: [String]) -> String {
      precondition(cells.allSatisfy { !$0.contains("|") && !$0.contains("\n") }, "a cell breaks the table: \(cells)")
      return "| " + cells.joined(separator: " | ") + " |\n"
    }
  }

  extension String {
    /// The text as Markdown code.
    var code: String { "`\(self)`" }

    /// Returns the document with new content between each `<!-- generated: NAME -->` and the next `<!-- end -->`.
    fileprivate func replacingRegions(_ tables: [String: String], of path: String) throws -> String {
      var result = self
      for (name, table) in tables {
        let begin = "<!-- generated: \(name) -->\n"
        let parts = result.split(separator: begin, omittingEmptySubsequences: false)
        guard parts.count == 2, let end = parts[1].firstRange(of: "<!-- end -->") else {
          throw ToolError("\(path) lacks the markers of '\(name)'.")
        }
        result = parts[0] + begin + "\n" + table + "\n" + parts[1][end.lowerBound...]
      }
      return result
    }
  }

  struct ToolError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
  }

  /// The repository's files. The repository is two folders above the folder of this source file.
  enum Repository {
    private static let root =
      #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")

    static func read(_ path: String) throws -> String {
      guard let file = unsafe fopen("\(root)/\(path)", "r") else { throw ToolError("\(path) cannot be read.") }
      defer { unsafe _ = fclose(file) }
      var bytes: [UInt8] = []
      while true {
        let byte = unsafe getc(file)
        guard byte != EOF else { break }
        bytes.append(UInt8(truncatingIfNeeded: byte))
      }
      return String(decoding: bytes, as: UTF8.self)
    }

    static func write(_ text: String, to path: String) throws {
      guard let file = unsafe fopen("\(root)/\(path)", "w") else { throw ToolError("\(path) cannot be written.") }
      let isWritten = unsafe fputs(text, file) >= 0
      guard unsafe fclose(file) == 0, isWritten else { throw ToolError("\(path) cannot be written.") }
    }
  }
#else
  @main
  enum ReferenceTables {
    static func main() { print("Only a debug build sees the rows.") }
  }
#endif
