import EventLoop
import TLS
import TestSupport
import Testing

@testable import HTTPServer

/// What a handler sees of a client certificate.
@Suite("A client's certificate", .otherPrograms)
struct ClientCertificateTests {
  /// A server that requests certificates, and the files of a client with a certificate.
  private struct Ground {
    let directory: TemporaryDirectory
    let server: TestServer
    let certificateFile: String
    let keyFile: String

    init(_ variant: Variant, speaksHTTP2: Bool = false) throws {
      directory = try TemporaryDirectory()
      let authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
      let own = try Certificate(key: KeyPair())
      let client = try Certificate(
        "partner", key: KeyPair(), issuer: authority, alternativeNames: ["URI:spiffe://example.com/partner"])
      certificateFile = try directory.write(client.pem, to: "client.pem")
      keyFile = try directory.write(client.key.pem, to: "client.key")
      let context = try TLSContext(
        certificate: PEMFile(directory.write(own.pem, to: "own.pem")),
        key: PEMFile(directory.write(own.key.pem, to: "own.key")),
        clientCA: PEMFile(directory.write(authority.pem, to: "ca.pem")),
        applicationProtocols: speaksHTTP2 ? ["h2", "http/1.1"] : ["http/1.1"])
      server = try TestServer(variant, router: .who, speaksHTTP2: speaksHTTP2, tls: context)
    }

    var credential: [String] { ["--cert", certificateFile, "--key", keyFile] }

    func curl(_ options: [String]) throws -> String {
      let paths = [String](repeating: "https://127.0.0.1:\(server.port)/who", count: 2)
      return try run("curl", ["--silent", "--insecure", "--max-time", "60"] + options + paths).stdout
    }
  }

  @Test("is available to all requests of its connection", arguments: Variant.tls)
  func known(_ variant: Variant) throws {
    let ground = try Ground(variant)
    let one = "127.0.0.1 127.0.0.1 spiffe://example.com/partner"
    #expect(try ground.curl(ground.credential) == one + one)
    #expect(ground.server.server.connections.accepted == 1)
  }

  @Test("is available to requests over HTTP/2", arguments: Variant.tls)
  func knownOverHTTP2(_ variant: Variant) throws {
    let ground = try Ground(variant, speaksHTTP2: true)
    let one = "127.0.0.1 127.0.0.1 spiffe://example.com/partner"
    #expect(try ground.curl(ground.credential + ["--http2"]) == one + one)
  }

  @Test("is optional, and does not leak to another connection", arguments: Variant.tls)
  func absent(_ variant: Variant) throws {
    let ground = try Ground(variant)
    _ = try ground.curl(ground.credential)
    let one = "127.0.0.1 127.0.0.1 -"
    #expect(try ground.curl([]) == one + one)
  }
}
