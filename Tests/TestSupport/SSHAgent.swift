import Glibc

/// A real `ssh-agent` on a Unix-domain socket. The last reference kills the process.
public final class SSHAgent {
  /// The path of the socket.
  public let socket: String
  /// The process.
  public let process: ChildProcess
  private let directory: TemporaryDirectory

  /// Starts an agent with these keys, each PKCS #8 in PEM.
  public init(keys: [String] = []) throws {
    directory = try TemporaryDirectory()
    socket = directory.path(of: "agent.sock")
    process = try ChildProcess("ssh-agent", ["-D", "-a", socket])
    // It prints the variables once it listens.
    guard try process.line() != nil else { throw TestFailure("ssh-agent has ended: \(process.standardError)") }
    for key in keys { try add(key) }
  }

  /// Adds a key, as an operator does.
  public func add(_ pem: String) throws {
    let file = try directory.write(pem, to: "key")
    try manage([file])
  }

  /// Removes all keys.
  public func removeAll() throws { try manage(["-D"]) }

  /// The public keys, a line of OpenSSH each.
  public func list() throws -> String { try manage(["-L"]) }

  @discardableResult
  private func manage(_ arguments: [String]) throws -> String {
    let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? "/usr/bin:/bin"
    let result = try run("ssh-add", arguments, environment: ["SSH_AUTH_SOCK": socket, "PATH": path])
    guard result.status == 0 else { throw TestFailure("ssh-add \(arguments): \(result.stderr)") }
    return result.stdout
  }
}
