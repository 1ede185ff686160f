import Glibc
import TLS
import TestSupport

@testable import HTTPClient

/// Python's h2 as a server.
final class H2Upstream: Sendable {
  let port: UInt16
  let child: ChildProcess
  private let certificate: ServerCertificate?

  private static let python = unsafe getenv("TEST_PYTHON").map { unsafe String(cString: $0) } ?? "python3"
  private static let script =
    String("\(#filePath)".split(separator: "/").dropLast(3).map { "/" + $0 }.joined()) + "/Python/h2_upstream.py"

  init(port: UInt16 = 0, streams: Int = 100, isTLS: Bool = false) throws {
    certificate = isTLS ? try ServerCertificate() : nil
    let files = certificate.map { ["--certificate", $0.certificateFile, "--key", $0.keyFile] } ?? []
    child = try ChildProcess(
      Self.python, [Self.script, "--port", "\(port)", "--streams", "\(streams)"] + files, holdsInput: true)
    guard let port = try child.line().flatMap({ UInt16($0) }) else {
      throw TestFailure("The server names no port: \(child.standardError)")
    }
    self.port = port
  }

  /// A client for this server.
  func client(_ change: (inout UpstreamClient.Configuration) -> Void = { _ in }) throws -> TestClient {
    if let certificate { return try TestClient(tls: certificate.trusting(), port: port, of: self, change) }
    return try TestClient(port: port, of: self) { configuration in
      configuration.http2 = .priorKnowledge
      change(&configuration)
    }
  }
}

/// A certificate for `localhost` in files, with the authority to trust.
final class ServerCertificate: Sendable {
  let certificateFile: String
  let keyFile: String
  private let authorityFile: String
  private let directory: TemporaryDirectory

  init(_ names: [String] = ["DNS:localhost"], notAfter: Int = 86_400) throws {
    directory = try TemporaryDirectory()
    let authority = try Certificate("Test CA", key: KeyPair(), isAuthority: true)
    let leaf = try Certificate(key: KeyPair(), issuer: authority, alternativeNames: names, notAfter: notAfter)
    authorityFile = try directory.write(authority.pem, to: "ca.pem")
    certificateFile = try directory.write(leaf.pem, to: "certificate.pem")
    keyFile = try directory.write(leaf.key.pem, to: "key.pem")
  }

  func trusting() throws -> TLSClientContext { try TLSClientContext(authorities: PEMFile(authorityFile)) }
}
