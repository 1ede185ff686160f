import Glibc
import TestSupport

/// The built binary as a server. The last reference kills the process.
final class RunningServer {
  /// The addresses in the server's own messages: `http://127.0.0.1:41237`.
  let urls: [String]
  /// The address of the admin listener; nil without an admin listener.
  let adminURL: String?
  let process: ChildProcess

  /// Starts the server and waits until it reports that it accepts connections.
  ///
  /// - Throws: `TestFailure` with the server's output, if the server ends instead.
  convenience init(_ arguments: [String], environment: [String: String]) throws {
    try self.init(Program.path, arguments, environment: environment, hasAdmin: environment["ADMIN_ENABLED"] != "false")
  }

  /// Starts the server through another program, such as a shell that sets limits and replaces itself.
  init(_ executable: String, _ arguments: [String], environment: [String: String], hasAdmin: Bool = true) throws {
    process = try ChildProcess(executable, arguments, environment: environment)
    var urls: [String] = []
    var admin: String?
    while urls.isEmpty || (hasAdmin && admin == nil) {
      guard let line = try process.line() else {
        throw TestFailure("The server ended with status \(process.wait()): \(process.standardError)")
      }
      if line.hasPrefix("Listening on ") { urls.append(String(line.dropFirst(13))) }
      if line.hasPrefix("Admin on ") { admin = String(line.dropFirst(9)) }
    }
    self.urls = urls
    adminURL = admin
  }

  var url: String { urls[0] }

  /// The port of the public listener.
  var port: UInt16 { url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0 }

  /// Ends the server with a signal and returns its exit status.
  @discardableResult
  func stop(_ signal: Int32 = SIGTERM) -> Int32 {
    process.signal(signal)
    return process.wait()
  }

  /// The log so far; complete only after the end of the server.
  var log: String { process.standardError }

  /// The anonymous memory of the process, in bytes.
  var anonymousBytes: Int {
    get throws {
      let status = try TextFile.read("/proc/\(process.id)/status")
      let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
      guard let kilobytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Int($0) }) else {
        throw TestFailure("The kernel does not say how much memory the server takes.")
      }
      return kilobytes * 1024
    }
  }

  /// A request by curl.
  ///
  /// - Parameter options: Further options of curl.
  func request(_ target: String, _ options: String...) throws -> ParsedResponse {
    try ParsedResponse(curl: options + ["\(url)\(target)"])
  }

  /// A request by curl to the admin listener.
  func admin(_ target: String, _ options: String...) throws -> ParsedResponse {
    try ParsedResponse(curl: options + ["\(adminURL ?? "")\(target)"])
  }

  /// A raw connection.
  func connect() throws -> RawConnection { try RawConnection(port: port, of: self) }
}
