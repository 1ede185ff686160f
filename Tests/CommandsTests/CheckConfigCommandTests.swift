import Glibc
import TestSupport
import Testing

@testable import Commands
@testable import ServerSettings

@Suite("check-config")
struct CheckConfigCommandTests {
  static let host = HostFacts(openFiles: 100_000, cores: 3, logsToTerminal: false)

  static func run(_ settings: [String: String]) -> CommandResult {
    CheckConfigCommand.result(SettingsInput(environment: settings, host: host))
  }

  @Test("prints a summary of a valid configuration")
  func good() throws {
    let key = try KeyFixture()
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": key.path, "ACCESS_ANONYMOUS": "{ token: true }",
      "TOKEN_TTTL": "1",
    ])
    #expect(result.status == .good)
    #expect(
      result.output == [
        "The configuration is valid: team TEAM123456, http on 127.0.0.1 port 8080, admin on 127.0.0.1 port 8081.",
        "anonymous: tokens of 12h for any origin; no rate limit",
      ])
    #expect(result.diagnostics.count == 1 && result.diagnostics[0].hasPrefix("Warning: "))
    withExtendedLifetime(key) {}
  }

  private static let digest = String(repeating: "0123456789abcdef", count: 4)

  /// The output lines after the first one, for a list of clients and additional settings.
  private static func grants(_ clients: String, _ settings: [String: String] = [:]) throws -> [String] {
    let key = try KeyFixture()
    let own = ["MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": key.path, "ACCESS_CLIENTS": clients]
    let result = run(own.merging(settings) { $1 })
    #expect(result.status == .good, "\(result.diagnostics)")
    withExtendedLifetime(key) {}
    return Array(result.output.dropFirst())
  }

  @Test("lists the grants of each client")
  func grants() throws {
    let clients = """
      [ { id: "android", apiKey: { sha256: "\(Self.digest)" }, ttl: "90m", catalog: true, storefronts: ["us", "gb"],
          rateLimit: { perSecond: 5, burst: 20, total: { perSecond: 0.5 } } },
        { id: "web", origins: ["https://a.example", "https://*.b.example.com"] },
        { id: "both", apiKey: { sha256: ["\(Self.digest.replacing("f", with: "e"))", "\(Self.digest.replacing("f", with: "d"))"] },
          origins: ["https://a.example"], token: false, catalog: true, me: true },
        { id: "many", origins: ["https://1.example", "https://2.example", "https://3.example", "https://4.example"] },
        { id: "members", jwt: { issuer: "i", audience: "a", jwksURL: "https://id.example/" }, catalog: true } ]
      """
    #expect(
      try Self.grants(clients, ["CATALOG_ME": "true", "ACCESS_ANONYMOUS": "{ token: false, catalog: true }"]) == [
        "android (API key): tokens of 90m for any origin, the catalog of gb, us; 5/s, 20 at once, 0.5/s in all",
        "web (origin): tokens of 12h for https://a.example, https://*.b.example.com; no rate limit",
        "both (2 API keys, and origin): the catalog, /v1/me; no rate limit",
        "many (origin): tokens of 12h for 4 origins; no rate limit",
        "members (JWT): tokens of 12h for any origin, the catalog; no rate limit",
        "anonymous: the catalog; no rate limit",
      ])
    #expect(
      try Self.grants("[{ id: 'a', origins: ['https://a.example'], catalog: true }]", ["CATALOG_ENABLED": "false"])
        == ["a (origin): tokens of 12h for https://a.example; no rate limit"])
  }

  @Test("lists the grants of at most twenty clients and of anonymous, and counts the other clients")
  func manyGrants() throws {
    func clients(_ count: Int) -> String {
      "[" + (0..<count).map { "{ id: 'c\($0)', origins: ['https://c\($0).example'] }" }.joined(separator: ",") + "]"
    }
    #expect(try Self.grants(clients(20)).count == 20)
    #expect(
      try Self.grants(clients(30)).suffix(2) == [
        "c19 (origin): tokens of 12h for https://c19.example; no rate limit", "and 10 more clients",
      ])
    let withAnonymous = try Self.grants(clients(20), ["ACCESS_ANONYMOUS": "{ token: true }"])
    #expect(withAnonymous.count == 21)
    #expect(withAnonymous.suffix(2) == ["and 1 more client", "anonymous: tokens of 12h for any origin; no rate limit"])
  }

  @Test(
    "warns if no log records grants and refusals",
    arguments: [("warning", "", true), ("notice", "", true), ("info", "", false), ("error", "/tmp/audit.log", false)])
  func noRecord(_ level: String, _ file: String, _ isWarned: Bool) throws {
    let key = try KeyFixture()
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": key.path, "ACCESS_ANONYMOUS": "{ token: true }",
      "LOG_LEVEL": level,
      "AUDIT_FILE": file,
    ])
    #expect(result.status == .good)
    #expect(
      result.diagnostics
        == (isWarned
          ? [
            "Warning: The server keeps no audit log, so it grants tokens without a record: log.level is \"\(level)\", and "
              + "audit.file is not set."
          ] : []))
    withExtendedLifetime(key) {}
  }

  @Test("checks the files of a client that has another error")
  func filesOfFaultyClients() throws {
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "/nonexistent/AuthKey_ABC1234567.p8",
      "ACCESS_CLIENTS": """
      [ { id: "a b", jwt: { issuer: "i", jwksFile: "/nonexistent/a", colour: 1 } },
        { id: "b", jwt: { issuer: "i", audience: "b", jwksURL: "http://x", caFile: "/nonexistent/b" } },
        { id: "c", jwt: { issuer: "i", audience: "c", jwksFile: "/nonexistent/c" } } ]
      """,
    ])
    for place in [
      "[0].jwt.jwksFile: the file \"/nonexistent/a\" does not exist", "[1].jwt.caFile: ", "[2].jwt.jwksFile: ",
    ] {
      #expect(result.diagnostics.contains { $0.hasPrefix("access.clients\(place)") }, "\(place): \(result.diagnostics)")
    }
  }

  @Test("names the actual content of a file that is not a key set")
  func keySetFile() throws {
    let key = try KeyFixture()
    let folder = try TemporaryDirectory()
    let page = try folder.write("\n<!DOCTYPE html>", to: "page")
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": key.path,
      "ACCESS_CLIENTS": "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: '\(page)' } }]",
    ])
    #expect(
      result.diagnostics == [
        "access.clients[0].jwt.jwksFile: the file \"\(page)\" is a web page; write the path of a JWK Set, JSON "
          + "of the form {\"keys\": […]}."
      ])
    withExtendedLifetime((key, folder)) {}
  }

  @Test("reports the errors of the settings and of the named files, one per line")
  func errors() {
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "/nonexistent/AuthKey_ABC1234567.p8",
      "SERVER_TLS_CERTIFICATE_FILE": "/nonexistent/c", "SERVER_TLS_KEY_FILE": "/tmp", "SERVER_PORT": "x",
    ])
    #expect(result.status == .configuration)
    #expect(result.output.isEmpty)
    let paths = ["server.port", "access", "musickit.keyFile"]
    for path in paths { #expect(result.diagnostics.contains { $0.hasPrefix(path) }, "\(path)") }
    #expect(result.diagnostics.allSatisfy { !$0.contains("\n") })
  }

  @Test(
    "checks the files of a section whose other settings are invalid",
    arguments: [
      (["MUSICKIT_TEAM_ID": "X"], "musickit.teamID", "musickit.keyFile"),
      (["MUSICKIT_KEY_ID": "X", "MUSICKIT_KEY_FILE": "/nonexistent/key.p8"], "musickit.keyID", "musickit.keyFile"),
      (
        [
          "MUSICKIT_KEYS": "[{ id: 'X', file: '/nonexistent/key.p8', state: 'active' }]", "MUSICKIT_KEY_FILE": "",
        ], "musickit.keys[0].id", "musickit.keys[0]:"
      ),
      (
        ["SERVER_LOOPS": "0", "SERVER_TLS_CERTIFICATE_FILE": "/nonexistent/c"], "server.loops",
        "server.tls.certificateFile"
      ),
      (["SERVER_TLS_CERTIFICATE_FILE": "~/c"], "server.tls.certificateFile", "server.tls.keyFile"),
      (
        [
          "SERVER_TLS_CERTIFICATE_FILE": "/nonexistent/c",
          "SERVER_TLS_CERTIFICATES":
            "[{ certificateFile: 'a' }, { certificateFile: '/nonexistent/a', keyFile: '~/k' }]",
        ], "server.tls.certificates[0].keyFile", "server.tls.certificates[1].certificateFile"
      ),
      (["CATALOG_CONCURRENCY": "0", "CATALOG_CA_FILE": "/nonexistent/a"], "catalog.concurrency", "catalog.caFile"),
      (["AUDIT_REQUIRED": "no", "AUDIT_FILE": "/nonexistent/a"], "audit.required", "audit.file"),
      (
        ["SHARED_URL": "redis://a", "SHARED_DATABASE": "x", "SHARED_PASSWORD_FILE": "/nonexistent/a"],
        "shared.database",
        "shared.passwordFile"
      ),
      (
        [
          "OTEL_EXPORTER_OTLP_ENDPOINT": "https://c", "OTEL_BSP_MAX_QUEUE_SIZE": "x",
          "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nonexistent/a",
        ], "otel.bsp.maxQueueSize", "otel.exporter.otlp.certificate"
      ),
    ])
  func filesOfInvalidSections(_ settings: [String: String], _ setting: String, _ file: String) {
    let others = [
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "/nonexistent/AuthKey_ABC1234567.p8",
      "SERVER_TLS_KEY_FILE": settings["SERVER_TLS_CERTIFICATE_FILE"].map { _ in "/nonexistent/k" } ?? "",
      "ACCESS_ANONYMOUS": "{ token: true }",
    ]
    let diagnostics = Self.run(others.merging(settings) { $1 }).diagnostics
    for path in [setting, file] { #expect(diagnostics.contains { $0.hasPrefix(path) }, "\(path): \(diagnostics)") }
    let expected = ["musickit.keyFile", "server.tls.keyFile", "server.tls.certificate", setting, file]
    #expect(diagnostics.allSatisfy { line in expected.contains { line.hasPrefix($0) } }, "\(diagnostics)")
  }

  @Test("says nothing of a key's missing ID if the ID in the settings is invalid")
  func invalidKeyID() throws {
    let key = try KeyFixture()
    let settings = ["MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_ID": "X", "ACCESS_ANONYMOUS": "{ token: true }"]
    for path in [key.path, key.plainPath] {
      let diagnostics = Self.run(settings.merging(["MUSICKIT_KEY_FILE": path]) { $1 }).diagnostics
      #expect(diagnostics.count == 1 && diagnostics[0].hasPrefix("musickit.keyID "), "\(diagnostics)")
    }
    withExtendedLifetime(key) {}
  }

  @Test("refuses an audit log in a file that the server reads")
  func auditInKey() throws {
    let key = try KeyFixture()
    let link = "\(key.folder)/audit.log"
    try #require(unsafe symlink(key.path, link) == 0)
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": key.path, "ACCESS_ANONYMOUS": "{ token: true }",
      "AUDIT_FILE": link,
    ])
    #expect(
      result.diagnostics == [
        "audit.file: the file \"\(link)\" is also that of musickit.keyFile; write the path of another file, because "
          + "the server appends to it."
      ])
    withExtendedLifetime(key) {}
  }

  @Test("explains errors with the warnings, as serve does")
  func warnings() {
    let settings = ["MUSICKIT_TEAM_ID": "x", "MUSICKIT_KEY_FIEL": "k", "ACCESS_ANONYMOUS": "{ token: true }"]
    let checked = Self.run(settings)
    #expect(checked.diagnostics.last?.hasPrefix("Warning: The environment variable \"MUSICKIT_KEY_FIEL\"") == true)
    let input = SettingsInput(environment: settings, host: Self.host)
    let served = ServeCommand.result(input, findings: [])
    #expect(served == checked)
  }

  @Test("names a variable with a proxy that no key set can be fetched through")
  func proxy() throws {
    let key = try KeyFixture()
    let provider = "{ id: 'a', jwt: { issuer: 'https://id.example', audience: 'a' } }"
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": key.path, "ACCESS_CLIENTS": "[\(provider)]",
      "CATALOG_ENABLED": "false", "HTTPS_PROXY": "socks5://proxy:1080",
    ])
    #expect(
      result.diagnostics == [
        "HTTPS_PROXY: is not the URL of a proxy, and the server needs one for https://id.example; write one such as "
          + "\"http://proxy.example.com:3128\", or NO_PROXY with the hosts that need none."
      ])
    withExtendedLifetime(key) {}
  }

  @Test("lists at most one hundred errors and counts the others")
  func manyFaults() throws {
    let members = (0..<500).map { "sever\($0): 1" }.joined(separator: ", ")
    let folder = try TemporaryDirectory()
    let minimal =
      #"musickit: { teamID: "TEAM123456", keyFile: "AuthKey_KEY1234567.p8" }, access: { anonymous: { token: true } }"#
    let file = try folder.write("{ \(minimal), \(members) }", to: "settings.json5")
    let result = CheckConfigCommand.result(SettingsInput(file: file, environment: [:], host: Self.host))
    #expect(result.status == .configuration)
    // The missing key file is one more error.
    #expect(result.diagnostics.count == 101)
    #expect(result.diagnostics.last == "There are 401 more errors.")
    #expect(result.diagnostics.count { $0.contains("the nearest is server") } == 20)
    withExtendedLifetime(folder) {}
  }

  @Test("checks the TLS files")
  func tls() {
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "/nonexistent/AuthKey_ABC1234567.p8",
      "SERVER_TLS_CERTIFICATE_FILE": "/nonexistent/c", "SERVER_TLS_KEY_FILE": "/tmp",
      "ACCESS_ANONYMOUS": "{ token: true }",
    ])
    #expect(
      result.diagnostics.suffix(2) == [
        "server.tls.certificateFile: the file \"/nonexistent/c\" does not exist; write the path of a readable PEM file.",
        "server.tls.keyFile: the file \"/tmp\" is a directory; write the path of a readable PEM file.",
      ])
  }

  @Test(
    "checks the client CA file even if another file is bad",
    arguments: [
      ("/nonexistent/ca", "server.tls.clientCAFile: the file \"/nonexistent/ca\" does not exist; write the path of a"),
      (#filePath, "server.tls.clientCAFile: '\(#filePath)' contains no certificate"),
    ])
  func clientCA(_ file: String, _ error: String) {
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "/nonexistent/AuthKey_ABC1234567.p8",
      "SERVER_TLS_CERTIFICATE_FILE": "/nonexistent/c", "SERVER_TLS_KEY_FILE": "/nonexistent/k",
      "SERVER_TLS_CLIENT_CA_FILE": file, "ACCESS_ANONYMOUS": "{ token: true }",
    ])
    #expect(result.diagnostics.contains { $0.hasPrefix(error) }, "\(result.diagnostics)")
    #expect(result.diagnostics.contains { $0.hasPrefix("server.tls.certificateFile: ") })
  }

  @Test("warns of an expired client CA certificate")
  func expiredClientCA() throws {
    let key = try KeyFixture()
    let directory = try TemporaryDirectory()
    let certificate = try Certificate(key: KeyPair())
    let authority = try Certificate("CA", key: KeyPair(), isAuthority: true, notBefore: -7200, notAfter: -3600)
    let file = try directory.write(authority.pem, to: "ca.pem")
    let result = Self.run([
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": key.path, "ACCESS_ANONYMOUS": "{ token: true }",
      "SERVER_TLS_CERTIFICATE_FILE": try directory.write(certificate.pem, to: "tls.crt"),
      "SERVER_TLS_KEY_FILE": try directory.write(certificate.key.pem, to: "tls.key"),
      "SERVER_TLS_CLIENT_CA_FILE": file,
    ])
    #expect(result.status == .good)
    let warnings = result.diagnostics.filter { $0.contains("'\(file)'") && $0.contains("expired") }
    #expect(warnings.count == 1, "\(result.diagnostics)")
    withExtendedLifetime(key) {}
  }

  @Test("never shows the key of a variable")
  func secret() throws {
    let key = try KeyFixture()
    let pem = String(decoding: try SmallFile.read(key.path, atMost: 4096), as: UTF8.self)
    let body = pem.split(separator: "\n").dropFirst().dropLast().joined()
    let settings = [
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_ID": "ABC1234567", "ACCESS_ANONYMOUS": "{ token: true }",
    ]
    for text in [pem, body, String(pem.dropLast(60)), "x" + body, String(body.dropLast(8))] {
      for name in ["MUSICKIT_KEY", "MUSICKIT_KEY_FILE", "MUSICKIT_TEAM_ID", "SERVER_TLS_KEY_FILE", "MUSICKIT_KEYS"] {
        let result = Self.run(settings.merging([name: text]) { $1 })
        let said = (result.output + result.diagnostics).joined()
        for start in stride(from: 0, to: body.count - 12, by: 6) {
          #expect(!said.contains(body.dropFirst(start).prefix(12)), "\(name)")
        }
      }
    }
    withExtendedLifetime(key) {}
  }
}
