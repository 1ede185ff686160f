import Glibc
import TestSupport

/// A server below a service manager of the test, which passes it sockets and reads its messages.
final class ManagedServer {
  /// The service manager's process.
  let process: ChildProcess
  /// All lines so far.
  private(set) var lines: [String] = []
  private var unread: [String] = []
  /// The files of the server.
  private let ground: Ground

  /// Starts the service manager with these options, and it starts the server.
  init(_ ground: Ground, _ options: [String], _ settings: [String: String] = [:]) throws {
    let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? "/usr/bin:/bin"
    self.ground = ground
    process = try ChildProcess(
      Repository.python, [Repository.script("service_manager.py")] + options + [Program.path],
      environment: ground.settings.merging(["PATH": path]) { $1 }.merging(settings) { $1 }, holdsInput: true)
  }

  /// Gives the service manager a command: `restart`, `reload` or `stop`.
  func command(_ command: String) { process.send("\(command)\n") }

  /// Returns the next line that begins with `prefix`. Lines of the same first word before it are skipped; others stay,
  /// because the server's output and its messages come in any order.
  func line(_ prefix: String) throws -> String {
    let word = prefix.prefix { $0 != " " }
    while true {
      if let place = unread.firstIndex(where: { $0.hasPrefix(prefix) }) {
        let line = unread[place]
        unread = unread[..<place].filter { $0.prefix { $0 != " " } != word } + unread[(place + 1)...]
        return line
      }
      guard let line = try process.line() else {
        throw TestFailure("The service manager ended without “\(prefix)”: \(lines) \(process.standardError)")
      }
      lines.append(line)
      unread.append(line)
    }
  }

  /// Returns the URL that the server announces next.
  func url() throws -> String { String(try line("Listening on ").dropFirst(13)) }
}
