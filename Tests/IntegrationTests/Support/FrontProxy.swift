import Glibc
import TestSupport

/// A reverse proxy in front of a server, which it asks from an address of its own.
final class FrontProxy {
  /// Where it asks from.
  static let address = "127.0.0.5"

  let port: UInt16
  private let process: ChildProcess
  private let directory: TemporaryDirectory

  private init(_ program: String, _ options: [String], port: UInt16, _ configuration: String) throws {
    directory = try TemporaryDirectory()
    let file = try directory.write(
      configuration.replacing("@DIRECTORY@", with: directory.path(of: "")), to: "proxy.conf")
    // Not on everybody's path.
    let path = "/usr/sbin/\(program)"
    process = try ChildProcess(unsafe access(path, X_OK) == 0 ? path : program, options + [file])
    self.port = port
    try eventually("\(program) listens") { (try? RawConnection(port: port)) != nil }
  }

  deinit {
    process.signal(SIGTERM)
    process.wait()
  }

  /// HAProxy, which hands on bytes (`tcp`) or requests (`http`).
  ///
  /// - Parameters:
  ///   - server: Options of its `server` line, such as `send-proxy`.
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
    return try FrontProxy("haproxy", ["-db", "-f"], port: port, configuration)
  }

  /// nginx, with further directives for its one location.
  static func nginx(_ target: RunningServer, _ directives: String...) throws -> FrontProxy {
    let port = UpstreamGround.fixedPort
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map { "\($0)_temp_path @DIRECTORY@\($0);" }.joined(separator: "\n  ")
    let configuration = """
      daemon off;
      worker_processes 1;
      pid @DIRECTORY@nginx.pid;
      error_log stderr;
      events { worker_connections 128; }
      http {
        access_log off;
        \(temporary)
        server {
          listen 127.0.0.1:\(port);
          location / {
            proxy_pass http://127.0.0.1:\(target.port);
            proxy_bind \(address);
            \(directives.joined(separator: "\n      "))
          }
        }
      }
      """
    return try FrontProxy("nginx", ["-e", "stderr", "-c"], port: port, configuration)
  }

  /// A request by curl from an address of loopback.
  func request(_ target: String, from address: String, scheme: String = "http", _ options: String...) throws
    -> ParsedResponse
  {
    try ParsedResponse(curl: ["--interface", address] + options + ["\(scheme)://127.0.0.1:\(port)\(target)"])
  }
}
