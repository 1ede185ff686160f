import Glibc

/// A real `redis-server` with an empty database, on a Unix-domain socket and perhaps a port.
public final class RedisServer: @unchecked Sendable {
  // Sendable: used by one thread at a time.

  /// The path of its socket.
  public let socket: String
  private let directory: TemporaryDirectory
  private let command: [String]
  private var process: ChildProcess?

  /// Starts a server, which accepts connections when this returns.
  ///
  /// - Parameters:
  ///   - arguments: Further settings, such as `--requirepass` and a password. Without `--port`, it listens on no port.
  ///   - launcher: What to begin the command with, such as `ip netns exec` and a name.
  public init(_ arguments: [String] = [], launcher: [String] = []) throws {
    directory = try TemporaryDirectory()
    socket = directory.path(of: "redis.sock")
    command =
      launcher + ["redis-server", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", directory.path]
      + (arguments.contains("--port") ? [] : ["--port", "0"]) + arguments
    try start()
  }

  deinit {
    resume()
    process?.kill()
  }

  /// The ID of its process.
  public var processID: Int32 { process?.id ?? 0 }

  /// Starts it again after `kill`, with an empty database.
  public func start() throws {
    let process = try ChildProcess(command[0], Array(command.dropFirst()))
    while let line = try process.line() {
      // It says so of the port first, if it has one. The second form is that of Valkey, and of Redis since 7.2.
      if line.contains("ready to accept connections at") || line.contains("Ready to accept connections unix") { break }
    }
    guard !process.hasEnded else { throw TestFailure("redis-server has ended: \(process.standardError)") }
    self.process = process
  }

  /// Ends it at once.
  public func kill() {
    process?.kill()
    process = nil
  }

  /// Lets it do nothing until `resume`.
  public func pause() { process?.signal(SIGSTOP) }

  /// Lets it continue.
  public func resume() { process?.signal(SIGCONT) }

  /// Returns what `redis-cli` prints for a command.
  @discardableResult
  public func run(_ command: String...) throws -> String { try run(arguments: command) }

  /// Runs a command with these arguments, and returns the text that `redis-cli` prints.
  @discardableResult
  public func run(arguments command: [String]) throws -> String {
    let result = try TestSupport.run("redis-cli", ["-s", socket, "--no-auth-warning"] + command)
    guard result.status == 0 else { throw TestFailure("redis-cli \(command): \(result.stdout)\(result.stderr)") }
    return result.stdout.split(separator: "\n").joined(separator: "\n")
  }
}
