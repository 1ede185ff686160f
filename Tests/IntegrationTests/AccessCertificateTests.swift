import Glibc
import JSON
import TestSupport
import Testing

@Suite("A client certificate")
struct AccessCertificateTests {
  private static let key = "key-of-the-certificate-test"
  private static let partner =
    "{ id: 'partner', clientCertificate: { san: 'spiffe://example.com/partner' }, token: false, catalog: true },"

  /// The clients of the tests: one with a URI, one with two DNS names, one with an e-mail address and an origin, and
  /// one with an API key.
  private static func clients(partner: String = partner) throws -> String {
    """
    [
      \(partner)
      { id: "hosts", clientCertificate: { san: ["Host.Example.com", "other.example.com"] }, ttl: "10m" },
      { id: "robot", clientCertificate: { san: "robot@example.com" }, origins: ["https://app.example.com"] },
      { id: "key", apiKey: { sha256: "\(try AccessGround.sha256(key))" } },
    ]
    """
  }

  private static func ground(_ settings: [String: String] = [:]) throws -> CertifiedGround {
    try CertifiedGround(["ACCESS_CLIENTS": try clients()].merging(settings) { $1 })
  }

  /// One row: the names of the certificate, the request, and the expected response.
  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Nil for no certificate.
    let names: [String]?
    let options: [String]
    let target: String
    let status: Int
    /// The code of the error.
    let code: String?
    /// The reason of the audit line.
    let reason: String?
    /// The client of the audit line.
    let client: String

    init(
      _ label: String, _ names: [String]?, _ options: [String], _ target: String, _ status: Int,
      _ code: String? = nil, _ reason: String? = nil, client: String = "-"
    ) {
      (testDescription, self.names, self.options, self.target) = (label, names, options, target)
      (self.status, self.code, self.reason, self.client) = (status, code, reason, client)
    }

    /// A request for a token without other options.
    init(
      _ label: String, _ names: [String]?, _ status: Int, _ code: String? = nil, _ reason: String? = nil,
      client: String = "-"
    ) {
      self.init(label, names, [], "/token", status, code, reason, client: client)
    }
  }

  private static let uri = ["URI:spiffe://example.com/partner"]
  private static let email = ["email:robot@example.com"]
  private static let page = ["-H", "Origin: https://app.example.com"]
  private static let unknown = "unknown_certificate"
  private static let several = "malformed_credential"

  static let rows: [Row] = [
    Row("a URI, for the catalog", uri, [], AccessGround.album, 200, client: "partner"),
    Row("a URI, for a token", uri, [], "/token", 403, "not_permitted", "no_token", client: "partner"),
    Row("a URI in other letters", ["URI:spiffe://example.com/Partner"], 401, "invalid_credentials", unknown),
    Row("a URI and more", ["URI:spiffe://example.com/partner/x"], 401, "invalid_credentials", unknown),
    Row("a URI where the host is another's", ["URI:spiffe://example.org/partner"], 401, "invalid_credentials", unknown),
    Row("a DNS name", ["DNS:host.example.com"], 200, client: "hosts"),
    Row("a DNS name in other letters", ["DNS:HOST.example.COM"], 200, client: "hosts"),
    Row("the client's other DNS name", ["DNS:other.example.com"], 200, client: "hosts"),
    Row("one name of several", ["DNS:x.example.org", "IP:192.0.2.1", "DNS:other.example.com"], 200, client: "hosts"),
    Row("a host below it", ["DNS:a.host.example.com"], 401, "invalid_credentials", unknown),
    Row("a star that covers it", ["DNS:*.example.com"], 401, "invalid_credentials", unknown),
    Row("a URI that reads like the DNS name", ["URI:host.example.com"], 401, "invalid_credentials", unknown),
    Row("an e-mail address on its page", email, page, "/token", 200, client: "robot"),
    Row("an e-mail address without its page", email, 401, "missing_credentials", "no_origin", client: "robot"),
    Row(
      "an e-mail address on another page", email, ["-H", "Origin: https://evil.example"], "/token", 403,
      "origin_not_allowed", "origin_not_allowed", client: "robot"),
    Row(
      "an e-mail address in other letters", ["email:Robot@example.com"], page, "/token", 401, "invalid_credentials",
      unknown),
    Row("the e-mail address as a URI", ["URI:robot@example.com"], page, "/token", 401, "invalid_credentials", unknown),
    Row(
      "the page without the certificate", nil, page, "/token", 401, "missing_credentials", "no_credential",
      client: "robot"),
    Row("an address, which is nobody's name", ["IP:127.0.0.1"], 401, "invalid_credentials", unknown),
    Row("no name but the subject's", [], 401, "invalid_credentials", unknown),
    Row(
      "an unknown one for the catalog", ["DNS:x.example.org"], [], AccessGround.album, 401, "invalid_credentials",
      unknown),
    Row("none", nil, 401, "missing_credentials", "no_credential"),
    Row("none, for the catalog", nil, [], AccessGround.album, 401, "missing_credentials", "no_credential"),
    Row("none, but a key", nil, ["-H", "X-API-Key: \(key)"], "/token", 200, client: "key"),
    Row("one and a key", uri, ["-H", "X-API-Key: \(key)"], AccessGround.album, 401, "invalid_credentials", several),
    Row(
      "one and a bearer", uri, ["-H", "Authorization: Bearer \(key)"], AccessGround.album, 401, "invalid_credentials",
      several),
    Row("one and a bad key", uri, ["-H", "X-API-Key: x"], AccessGround.album, 401, "invalid_credentials", several),
    Row(
      "an unknown one and a key", ["DNS:x.example.org"], ["-H", "X-API-Key: \(key)"], "/token", 401,
      "invalid_credentials", several),
  ]

  @Test("is accepted or refused as the table says, for every name and route", arguments: ["--http1.1", "--http2"])
  func table(version: String) throws {
    let ground = try Self.ground()
    for (index, row) in Self.rows.enumerated() {
      // The common name is a DNS name of a client, so that no row passes because of its common name.
      if let names = row.names { try ground.issue("\(index)", names, commonName: "host.example.com") }
      let response = try ground.request(row.target, as: row.names.map { _ in "\(index)" }, [version] + row.options)
      #expect(response.status == row.status, "\(row.testDescription): \(response.text)")
      #expect(response.errorCode == row.code, "\(row.testDescription)")
      #expect((response["WWW-Authenticate"] != nil) == (row.status == 401), "\(row.testDescription)")
    }
    #expect(ground.server.stop() == 0)
    let lines = ground.server.auditLines
    #expect(lines.count == Self.rows.count)
    for (line, row) in zip(lines, Self.rows) {
      #expect((line.outcome == "granted") == (row.status == 200), "\(row.testDescription): \(line)")
      #expect(line.reason == row.reason, "\(row.testDescription)")
      #expect(line.client == row.client, "\(row.testDescription)")
    }
    for secret in [Self.key, "BEGIN", "spiffe:"] { #expect(!ground.server.log.contains(secret)) }
  }

  @Test("is irrelevant for routes without access control", arguments: ["/healthz", "/readyz", "/openapi.json"])
  func health(target: String) throws {
    let ground = try Self.ground()
    try ground.issue("unknown", ["DNS:x.example.org"])
    for file in [nil, "unknown"] { #expect(try ground.request(target, as: file).status == 200) }
    ground.server.stop()
    #expect(ground.server.auditLines.isEmpty)
  }

  @Test("of an untrusted authority ends the handshake, whatever its names", arguments: ["1.2", "1.3"])
  func stranger(version: String) throws {
    let ground = try Self.ground()
    try ground.issue("forged", Self.uri, by: try Certificate("CA", key: KeyPair(), isAuthority: true))
    let options = ground.options(as: "forged") + ["--tlsv\(version)", "--tls-max", version]
    let result = try run("curl", ["-sS", "--noproxy", "*"] + options + ["\(ground.server.url)\(AccessGround.album)"])
    // 35: the handshake failed; 56: the alert arrived with the first read.
    #expect([35, 56].contains(result.status) && result.stdout.isEmpty, "\(result.status) \(result.stderr)")
    ground.server.stop()
    #expect(ground.server.auditLines.isEmpty)
  }

  @Test("identifies its client in a resumed session until the client is removed", arguments: ["-tls1_2", "-tls1_3"])
  func resumption(version: String) throws {
    let configuration = try TemporaryDirectory()
    let file = try configuration.write("{ access: { clients: \(try Self.clients()) } }", to: "config.json5")
    let ground = try CertifiedGround(["MUSICKIT_CONFIG": file])
    try ground.issue("partner", Self.uri)
    let session = ground.files.directory.path(of: "session")
    func ask(_ options: String...) throws -> String {
      let request = "GET \(AccessGround.album) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      let standard = ["s_client", "-connect", "127.0.0.1:\(ground.server.port)", "-ign_eof", version]
      return try run("openssl", standard + options, input: Array(request.utf8)).stdout
    }
    let first = try ask("-sess_out", session, "-cert", ground.files.directory.path(of: "partner.pem"))
    #expect(first.contains("New, ") && first.contains("HTTP/1.1 200 OK"), "\(first)")
    // Without the certificate: the session contains it.
    let second = try ask("-sess_in", session)
    #expect(second.contains("Reused, ") && second.contains("HTTP/1.1 200 OK"), "\(second)")

    _ = try configuration.write("{ access: { clients: \(try Self.clients(partner: "")) } }", to: "config.json5")
    ground.server.process.signal(SIGHUP)
    try ground.server.process.waitForErrors("Configuration reloaded")
    let third = try ask("-sess_in", session)
    #expect(third.contains("Reused, ") && third.contains("HTTP/1.1 401 Unauthorized"), "\(third)")
    ground.server.stop()
    #expect(ground.server.auditLines.map(\.reason) == [nil, nil, Self.unknown])
    #expect(ground.server.auditLines.map(\.client) == ["partner", "partner", "-"])
  }

  @Test("of a removed client is refused from the next request on, even on an open connection")
  func removed() throws {
    let configuration = try TemporaryDirectory()
    let file = try configuration.write("{ access: { clients: \(try Self.clients()) } }", to: "config.json5")
    let ground = try CertifiedGround(["MUSICKIT_CONFIG": file])
    try ground.issue("partner", Self.uri)
    let connection = try ChildProcess(
      "openssl",
      [
        "s_client", "-quiet", "-connect", "127.0.0.1:\(ground.server.port)", "-cert",
        ground.files.directory.path(of: "partner.pem"),
      ],
      holdsInput: true)
    func status() throws -> String? {
      connection.send("HEAD \(AccessGround.album) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      let first = try connection.line()
      while try #require(try connection.line()) != "\r" {}
      return first
    }
    #expect(try status() == "HTTP/1.1 200 OK\r")
    _ = try configuration.write("{ access: { clients: \(try Self.clients(partner: "")) } }", to: "config.json5")
    ground.server.process.signal(SIGHUP)
    try ground.server.process.waitForErrors("Configuration reloaded")
    #expect(try status() == "HTTP/1.1 401 Unauthorized\r")
    #expect(try ground.request(AccessGround.album, as: "partner").status == 401)
  }
}
