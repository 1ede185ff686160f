import Glibc
import TestSupport

/// A reverse proxy in front of a server, with its own source address.
final class FrontProxy {
  /// The source address of the proxy's connections to the server.
  static let address = "127.0.0.5"

  let port: UInt16
  private let process: ChildProcess
  private let directory: TemporaryDirectory

  /// Starts `program` with `options` and the path of its configuration.
  ///
  /// - Parameters:
  ///   - directory: The directory of the program's files; `@DIRECTORY@` in `configuration` becomes its path with a
  ///     slash.
  ///   - environment: The whole environment of the program; nil for the environment of the test.
  init(
    _ program: String, _ options: [String], port: UInt16, in directory: TemporaryDirectory,
    environment: [String: String]? = nil, _ configuration: String
  ) throws {
    self.directory = directory
    let file = try directory.write(
      configuration.replacing("@DIRECTORY@", with: directory.path(of: "")), to: "proxy.conf")
    // This folder is not in every user's PATH.
    let path = "/usr/sbin/\(program)"
    process = try ChildProcess(
      unsafe access(path, X_OK) == 0 ? path : program, options + [file], environment: environment)
    self.port = port
    try eventually("\(program) listens") { (try? RawConnection(port: port)) != nil }
  }

  deinit {
    process.signal(SIGTERM)
    process.wait()
  }

  /// HAProxy, which forwards bytes (`tcp`) or requests (`http`).
  ///
  /// - Parameters:
  ///   - server: Options of the `server` line, such as `send-proxy`.
  ///   - lines: Further lines of the section.
  static func haproxy(_ mode: String, _ target: RunningServer, server: String, _ lines: [String] = []) throws
    -> FrontProxy
  {
    let port = UpstreamGround.fixedPort
    let configuration = """
      global
        maxconn 100
      defaults
        mode \(mode)
        timeout connect 60s
        timeout client 60s
        timeout server 60s
      listen front
        bind 127.0.0.1:\(port)
        \(lines.joined(separator: "\n  "))
        server back 127.0.0.1:\(target.port) source \(address) \(server)

      """
    return try FrontProxy("haproxy", ["-db", "-f"], port: port, in: TemporaryDirectory(), configuration)
  }

  /// nginx with further directives for its only location.
  static func nginx(_ target: RunningServer, _ directives: String...) throws -> FrontProxy {
    let port = UpstreamGround.fixedPort
    let server = """
      access_log off;
      server {
        listen 127.0.0.1:\(port);
        location / {
          proxy_pass http://127.0.0.1:\(target.port);
          proxy_bind \(address);
          \(directives.joined(separator: "\n    "))
        }
      }
      """
    return try nginx(port: port, in: TemporaryDirectory(), http: server)
  }

  /// nginx with these directives in its `http` block.
  static func nginx(port: UInt16, in directory: TemporaryDirectory, http directives: String) throws -> FrontProxy {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map { "\($0)_temp_path @DIRECTORY@\($0);" }.joined(separator: "\n  ")
    let configuration = """
      daemon off;
      worker_processes 1;
      pid @DIRECTORY@nginx.pid;
      error_log stderr;
      events { worker_connections 128; }
      http {
        \(temporary)
        \(directives)
      }
      """
    return try FrontProxy("nginx", ["-e", "stderr", "-c"], port: port, in: directory, configuration)
  }

  /// A request by curl from a loopback address.
  func request(_ target: String, from address: String, scheme: String = "http", _ options: String...) throws
    -> ParsedResponse
  {
    try ParsedResponse(curl: ["--interface", address] + options + ["\(scheme)://127.0.0.1:\(port)\(target)"])
  }
}
