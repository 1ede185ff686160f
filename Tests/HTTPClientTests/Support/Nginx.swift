import Glibc
import TestSupport
import Testing

@testable import HTTPClient

/// nginx with TLS and HTTP/2, on a free port of loopback.
final class Nginx: Sendable {
  let port: UInt16
  private let child: ChildProcess
  private let directory: TemporaryDirectory
  private let certificate: ServerCertificate

  /// Starts nginx; the port accepts connections when this returns.
  /// - Parameters:
  ///   - speaksHTTP2: Whether nginx offers h2.
  ///   - certificate: The certificate of the server.
  ///   - lines: Additional lines for the server block of the configuration.
  init(speaksHTTP2: Bool = true, certificate: ServerCertificate? = nil, _ lines: String = "") throws {
    directory = try TemporaryDirectory()
    let certificate = try certificate ?? ServerCertificate()
    self.certificate = certificate
    // Freed immediately: another process is unlikely to get the port before nginx binds it.
    port = try ScriptedPeer().port
    let path = directory.path
    try directory.write(String(repeating: "0123456789abcdef", count: 65_536), to: "large")
    let configuration = """
      daemon off; master_process off; pid \(path)/pid; error_log stderr crit;
      events { worker_connections 1024; }
      http {
        access_log off; client_body_temp_path \(path)/body; proxy_temp_path \(path)/proxy;
        fastcgi_temp_path \(path)/fastcgi; uwsgi_temp_path \(path)/uwsgi; scgi_temp_path \(path)/scgi;
        server {
          listen 127.0.0.1:\(port) ssl\(speaksHTTP2 ? " http2" : "");
          ssl_certificate \(certificate.certificateFile); ssl_certificate_key \(certificate.keyFile);
          ssl_session_tickets on;
          root \(path);
          \(lines)
          location = /hello { default_type text/plain; return 200 "hello over $server_protocol $ssl_session_reused"; }
        }
      }
      """
    let file = try directory.write(configuration, to: "nginx.conf")
    // In sbin, which is not on every user's path.
    let program = unsafe access("/usr/sbin/nginx", X_OK) == 0 ? "/usr/sbin/nginx" : "nginx"
    child = try ChildProcess(program, ["-c", file, "-e", "stderr"])
    try wait(for: "nginx to listen on port \(port)") {
      guard !child.hasEnded else { throw TestFailure("nginx has ended: \(child.standardError)") }
      // Refused until nginx listens.
      return (try? RawClient(port: port)) != nil
    }
  }

  /// A client for this server.
  func client(
    host: String = "localhost", _ change: (inout UpstreamClient.Configuration) -> Void = { _ in }
  ) throws -> TestClient {
    try TestClient(tls: certificate.trusting(), port: port, host: host, of: self, change)
  }
}
