import TestSupport
import Testing

/// A proxy with its configuration from `deploy/`, with TLS. Only addresses, ports and paths are replaced.
final class DeployedProxy {
  enum Kind: String, CaseIterable, CustomTestStringConvertible, Sendable {
    case nginx = "nginx/musickit-token-server.conf"
    case caddy = "caddy/Caddyfile"
    case haproxy = "haproxy/musickit-token-server.cfg"

    var testDescription: String { rawValue }
  }

  /// The host name in the configuration.
  static let host = "tokens.example.com"

  private let proxy: FrontProxy
  private let directory: TemporaryDirectory
  private let certificateFile: String

  /// Starts the proxy in front of `target`.
  init(_ kind: Kind, _ target: RunningServer) throws {
    directory = try TemporaryDirectory()
    let certificate = try Certificate(Self.host, key: try KeyPair(), alternativeNames: ["DNS:\(Self.host)"])
    certificateFile = try directory.write(certificate.pem, to: "tls.crt")
    try directory.write(certificate.key.pem, to: "tls.key")
    try directory.write(certificate.pem + certificate.key.pem, to: "tls.pem")
    let file = try TextFile.read("\(Repository.path)/deploy/\(kind.rawValue)")
    proxy = try Self.start(kind, file, UpstreamGround.fixedPort, target, directory)
  }

  private static func start(
    _ kind: Kind, _ file: String, _ port: UInt16, _ target: RunningServer, _ directory: TemporaryDirectory
  ) throws -> FrontProxy {
    let back = (old: "127.0.0.1:8080", new: "127.0.0.1:\(target.port)")
    switch kind {
    case .nginx:
      let directives = try replace(
        [
          ("listen 443 ", "listen 127.0.0.1:\(port) "), ("listen [::]:443 ", "listen 127.0.0.2:\(port) "), back,
          ("/etc/ssl/\(host).crt", "@DIRECTORY@tls.crt"), ("/etc/ssl/private/\(host).key", "@DIRECTORY@tls.key"),
        ], in: file)
      return try FrontProxy.nginx(port: port, in: directory, http: directives)
    case .caddy:
      // The port of Caddy's own API would be the same for every test.
      let configuration = try replace(
        [
          ("\n{\n", "\n{\n\tadmin off\n"), ("\(host):443", "\(host):\(port)"), back,
          ("/etc/caddy/\(host)", "@DIRECTORY@tls"),
        ], in: file)
      return try FrontProxy(
        "caddy", ["run", "--adapter", "caddyfile", "--config"], port: port, in: directory,
        environment: ["HOME": directory.path, "PATH": "/usr/bin:/bin"], configuration)
    case .haproxy:
      let configuration = try replace(
        [("[::]:443 v4v6", "127.0.0.1:\(port)"), back, ("/etc/haproxy/\(host).pem", "@DIRECTORY@tls.pem")], in: file)
      return try FrontProxy("haproxy", ["-db", "-f"], port: port, in: directory, configuration)
    }
  }

  /// The text with these replacements, each of which must match.
  private static func replace(_ replacements: [(old: String, new: String)], in text: String) throws -> String {
    try replacements.reduce(text) { text, replacement in
      guard text.contains(replacement.old) else { throw TestFailure("The file does not contain \(replacement.old)") }
      return text.replacing(replacement.old, with: replacement.new)
    }
  }

  /// A request by curl from a loopback address.
  func request(_ target: String, from address: String, fields: [String] = []) throws -> ParsedResponse {
    let options = [
      "--interface", address, "--cacert", certificateFile, "--connect-to",
      "\(Self.host):443:127.0.0.1:\(proxy.port)",
    ]
    return try ParsedResponse(curl: options + fields.flatMap { ["-H", $0] } + ["https://\(Self.host)\(target)"])
  }
}
