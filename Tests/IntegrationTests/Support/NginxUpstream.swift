import Glibc
import TestSupport

/// nginx as an upstream with TLS and HTTP/2, which closes each connection after a hundred requests.
final class NginxUpstream {
  let url: String
  private let process: ChildProcess
  private let log: String

  /// A connection in nginx's log.
  struct Connection: Hashable {
    let number: Substring
    let protocolName: Substring
  }

  init(_ ground: UpstreamGround) throws {
    let directory = ground.ground.directory
    let (file, keyFile) = ground.certificate
    let port = UpstreamGround.fixedPort
    log = directory.path(of: "access.log")
    let configuration = """
      daemon off;
      worker_processes 1;
      pid \(directory.path(of: "nginx.pid"));
      error_log stderr;
      events { worker_connections 512; }
      http {
        log_format connection '$connection $server_protocol $status';
        access_log \(log) connection;
        client_body_temp_path \(directory.path(of: "body"));
        proxy_temp_path \(directory.path(of: "proxy"));
        fastcgi_temp_path \(directory.path(of: "fastcgi"));
        uwsgi_temp_path \(directory.path(of: "uwsgi"));
        scgi_temp_path \(directory.path(of: "scgi"));
        server {
          listen 127.0.0.1:\(port) ssl http2;
          ssl_certificate \(file);
          ssl_certificate_key \(keyFile);
          keepalive_requests 100;
          http2_max_concurrent_streams 50;
          default_type application/json;
          location / { return 200 '{"data":[{"href":"$request_uri"}]}'; }
        }
      }
      """
    let configurationFile = try directory.write(configuration, to: "nginx.conf")
    // This folder is not in every user's PATH.
    let program = unsafe access("/usr/sbin/nginx", X_OK) == 0 ? "/usr/sbin/nginx" : "nginx"
    process = try ChildProcess(program, ["-c", configurationFile, "-e", "stderr"])
    url = "https://127.0.0.1:\(port)"
    try eventually("nginx listens") { (try? RawConnection(port: port)) != nil }
  }

  /// The number of requests on each connection.
  func connections() throws -> [Connection: Int] {
    process.signal(SIGQUIT)
    process.wait()
    let lines = try TextFile.read(log).split(separator: "\n").map { $0.split(separator: " ") }
    return Dictionary(grouping: lines) { Connection(number: $0[0], protocolName: $0[1]) }.mapValues(\.count)
  }
}
