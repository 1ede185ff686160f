import Bytes
import TestSupport

@testable import UpstreamAdmission

/// A real store that runs the real script at a given time.
final class QuotaStore {
  /// A reply of the script.
  struct Reply {
    let numbers: [Int64]
    let parts: [UInt8]
  }

  private let server: RedisServer
  private let console: RedisConsole
  /// Receives the messages of the group.
  private let listener: RedisConsole
  private let digest: [UInt8]
  static let key = "{musickit}:pace"

  init() throws {
    server = try RedisServer()
    console = try RedisConsole(path: server.socket)
    listener = try RedisConsole(path: server.socket)
    var script: [UInt8] = []
    script.append(QuotaScript.learning)
    script.append("\n")
    script.append(QuotaScript.settlement)
    guard let digest = try console.command([Array("SCRIPT".utf8), Array("LOAD".utf8), script]).bytes else {
      throw TestFailure("Redis does not accept the script.")
    }
    self.digest = digest
    try listener.command("SUBSCRIBE", "events")
  }

  /// Settles. Returns the reply, and whether the script has sent a message to the other replicas.
  func settle(_ report: QuotaReport, of id: UInt64, now: Double) throws -> (Reply, isNews: Bool) {
    let arguments = report.arguments(
      of: Array(String(id, radix: 16).utf8), channel: Array("events".utf8), message: Array("news".utf8), time: now)
    let command = ["EVALSHA", "", "1", Self.key].map { Array($0.utf8) } + arguments
    let reply = try console.command([command[0], digest] + command[2...])
    guard let elements = reply.elements, let parts = elements.last?.bytes else {
      throw TestFailure("The script replied \(reply).")
    }
    let news = report.log.contains(UInt8(ascii: "r")) ? try messages().contains("news") : false
    return (Reply(numbers: elements.dropLast().compactMap(\.number), parts: parts), news)
  }

  /// Returns the messages until now.
  private func messages() throws -> [String] {
    try console.command("PUBLISH", "events", "end")
    var messages: [String] = []
    while let message = try listener.reply().elements?.last?.string, message != "end" { messages.append(message) }
    return messages
  }

  /// Removes all data.
  func empty() throws { try console.command("FLUSHALL") }

  /// Runs a command, as another program may.
  func run(_ command: [String]) throws { try console.command(command.map { Array($0.utf8) }) }
}
