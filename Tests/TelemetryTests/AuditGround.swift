import Glibc
import Locks
import TestSupport
import Testing

@testable import Telemetry

/// A temporary directory for an audit log, and the notices of that audit log.
final class AuditGround: Sendable {
  let directory: TemporaryDirectory
  let path: String
  private let told = Locked<[String]>([])

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.path(of: "audit.log")
  }

  func open(isRequired: Bool = false) throws -> AuditLog {
    try AuditLog(file: path, isRequired: isRequired) { notice in self.told.withLock { $0.append(notice) } }
  }

  /// The notices so far.
  var notices: [String] { told.withLock { $0 } }

  /// The notice that the file can be written again.
  func recovery(losing lines: Int) -> String {
    "The server can write the audit file '\(path)' again. Records lost: \(lines)."
  }

  /// The lines of a file, each without its line feed.
  func lines(of name: String = "audit.log") -> [Substring] {
    text(of: name).split(separator: "\n", omittingEmptySubsequences: false).dropLast()
  }

  /// The clients of a file's records, in file order. A line that is not a complete record gives "?".
  func clients(of name: String = "audit.log") -> [String] {
    lines(of: name).map { line in
      line.firstMatch(of: /^\{"time":"[^"]*","level":"info","message":"audit".*"client\.id":"([^"]*)".*\}$/)
        .map { String($0.output.1) } ?? "?"
    }
  }

  func text(of name: String) -> String {
    guard let file = unsafe fopen(directory.path(of: name), "r") else { return "" }
    defer { unsafe _ = fclose(file) }
    var (content, chunk): ([UInt8], [UInt8]) = ([], Array(repeating: 0, count: 65_536))
    while true {
      let count = unsafe fread(&chunk, 1, chunk.count, file)
      guard count > 0 else { return String(decoding: content, as: UTF8.self) }
      content.append(contentsOf: chunk[..<count])
    }
  }

  func move(_ from: String, to: String) throws {
    try #require(unsafe rename(directory.path(of: from), directory.path(of: to)) == 0)
  }
}

extension AuditLog {
  /// Writes a record about a client, and waits until the record is in the file or lost.
  func writeNow(_ client: String, _ outcome: AuditOutcome = .granted) throws {
    write(try AuditRecordTests.record(client: client, outcome))
    #expect(flush(timeout: .seconds(60)))
  }
}
