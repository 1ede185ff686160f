import Glibc
import JSON
import TestSupport
import Testing

/// The report of `doctor --url`.
private struct Report: CheckReport {
  let result: ProcessResult
  var text: String { result.stdout }

  /// Runs `doctor` on the admin listener of a server.
  ///
  /// - Parameter credential: The text for standard input; nil for no credential.
  init(_ server: RunningServer, _ arguments: [String] = [], credential: String? = nil) throws {
    let source = credential == nil ? [] : ["--credential-file", "-"]
    result = try Program.run(
      ["doctor", "--url", server.adminURL ?? ""] + source + arguments, input: credential ?? "")
    if let credential { #expect(!(result.stdout + result.stderr).contains(credential)) }
  }

  /// Expects that exactly these checks fail, with these words, and that all others pass or do not apply.
  func expectFailure(_ names: [String], _ words: String..., sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(result.status == (names.isEmpty ? 0 : 1), "\(text)\(result.stderr)", sourceLocation: sourceLocation)
    #expect(failed == names, "\(text)", sourceLocation: sourceLocation)
    #expect(passed.count + failed.count + skipped.count == 5, "\(text)", sourceLocation: sourceLocation)
    for word in words { #expect(text.contains(word), "\(word) in \(text)", sourceLocation: sourceLocation) }
  }
}

@Suite("doctor --url")
struct ServerDoctorTests {
  private static let page = "https://app.example.com"
  private static let studioPage = "https://studio.example.com"

  @Test("blames nothing for a caller that the server serves, and names its client")
  func healthy() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround()
    let keys = try ground.catalog.ground.directory.write(provider.keySet(), to: "jwks.json")
    let jwt = "{ id: 'members', jwt: { issuer: 'https://id.example.com/', audience: 'music', jwksFile: '\(keys)' } }"
    let other = try AccessGround(jwt)
    for (server, arguments, credential, client) in [
      (ground.server, [], AccessGround.android, "android"),
      (ground.server, ["--path", AccessGround.album], AccessGround.android, "android"),
      (ground.server, ["--origin", Self.page], nil, "web"),
      (ground.server, ["--origin", Self.studioPage, "--path", AccessGround.album], AccessGround.studio, "studio"),
      (other.server, [], try provider.mint(), "members"),
    ] as [(RunningServer, [String], String?, String)] {
      let report = try Report(server, arguments, credential: credential)
      report.expectFailure([], "Client \(client) may request")
      #expect(report.passed.contains("credential") == (credential != nil), "\(report.text)")
      #expect(report.passed.contains("cors") == arguments.contains("--origin"))
      #expect(report.result.stderr.isEmpty && !report.text.contains("\u{1B}"))
    }
    let cors = try Report(ground.server, ["--origin", Self.page])
    for line in [
      "Preflight: Access-Control-Allow-Methods: GET, POST", "Response: Access-Control-Allow-Origin: \(Self.page)",
    ] {
      #expect(cors.text.contains(line), "\(cors.text)")
    }
    let open = try Ground().serve()
    try Report(open, ["--path", "/token"]).expectFailure([], "Client anonymous may request /token.")
    try Report(open, ["--path", "/healthz"]).expectFailure([], "Every caller may request /healthz.")
    try Report(open).expectFailure([], "signingKey, token")
    let file = try ground.catalog.ground.directory.write("\n \(AccessGround.android)\n", to: "key")
    try Report(ground.server, ["--credential-file", file]).expectFailure([], "It belongs to client android.")
  }

  @Test("names why a credential is refused, and blames nothing else")
  func credentials() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    for (credential, words) in [
      (
        "unknown-key",
        ["does not know the API key", "SHA-256 begins with \(try AccessGround.sha256("unknown-key").prefix(8))"]
      ),
      ("mkts_" + String(repeating: "a", count: 49), ["checksum is wrong", "Copy the whole key again."]),
      (try provider.mint(claims: "{\"exp\": 1000}"), ["The JWT expired", "exp 1970-01-01T00:16:40Z"]),
      (try provider.mint(claims: "{\"aud\": \"films\"}"), ["aud does not name the server", "“films”", "“music”"]),
      (try provider.mint(claims: "{\"iss\": \"https://other.example\"}"), ["https://other.example", "byte by byte"]),
      (try provider.mint("kid=other"), ["no key of the JWT's issuer", "the kid “other”"]),
      (try provider.mint("keys=unpublished&kid=es256-1"), ["did not make the JWT's signature"]),
      (try provider.mint("alg=HS256"), ["alg is not one of"]),
    ] {
      let report = try Report(ground.server, ["--origin", Self.page], credential: credential)
      report.expectFailure(["credential"], "The caller gets 401 invalid_credentials")
      for word in words { #expect(report.text.contains(word), "\(word) in \(report.text)") }
      #expect(report.skipped == ["access"] && report.passed.contains("cors"))
    }
    let missing = try AccessGround(
      "{ id: 'idp', jwt: { issuer: 'https://id.example.com/', audience: 'music', jwksURL: 'https://localhost:1/jwks' } }"
    )
    let report = try Report(missing.server, credential: try provider.mint())
    report.expectFailure(["readiness", "credential"], "identityProviders", "503 overloaded", "Read in the log")
  }

  @Test("names why a caller gets no access, and blames no valid credential")
  func access() throws {
    let ground = try AccessGround()
    for (arguments, credential, failed, words) in [
      (["--path", "/v1/catalog/de/albums/1"], AccessGround.android, ["access"], "404 not_permitted"),
      (["--path", "/v1/me/library/songs"], AccessGround.android, ["access"], "cannot use /v1/me"),
      (["--path", "/nowhere"], nil, ["access"], "404 not_found"),
      (["--path", "/token"], nil, ["access"], "401 missing_credentials"),
      (["--path", "/token?ttl=1"], AccessGround.android, ["access"], "400 invalid_parameter"),
      ([], AccessGround.studio, ["access"], "needs both its credential and one of its web origins"),
      (["--origin", Self.studioPage], nil, ["access"], "need a credential beside their origin"),
      (["--origin", Self.studioPage], AccessGround.studio, ["access"], "no developer tokens"),
      (["--origin", Self.page], AccessGround.studio, ["access"], "is not one of the origins of client studio"),
      (["--origin", "http://app.example.com"], nil, ["access", "cors"], "differs from https://app.example.com"),
      (["--origin", "null"], nil, ["access", "cors"], "sandboxed frames"),
      (
        ["--origin", "https://evil.example"], AccessGround.android, ["cors"],
        "No client has the origin https://evil.example"
      ),
    ] as [([String], String?, [String], String)] {
      let report = try Report(ground.server, arguments, credential: credential)
      report.expectFailure(failed, words)
      #expect(report.passed.contains("credential") == (credential != nil), "\(report.text)")
    }
    let certified = try CertifiedGround(["ACCESS_CLIENTS": "[{ id: 'mtls', clientCertificate: { san: 'a.example' } }]"])
    try Report(certified.server, ["--path", "/token"]).expectFailure(["access"], "Send a TLS client certificate")
    let anonymous = try Ground().serve(["ACCESS_ANONYMOUS": "{ token: true, origins: ['\(Self.page)'] }"])
    try Report(anonymous, ["--path", "/token"]).expectFailure(["access"], "the request has no Origin")
  }

  @Test("shows each check of the server that is not ok")
  func readiness() throws {
    let ground = try Ground()
    let other = try Emulator(try Ground())
    let server = try ground.serve(
      other.settings.merging(["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]) { $1 })
    #expect(try server.request("/v1/storefronts").status == 502)
    try Report(server).expectFailure(
      ["readiness"], "appleMusic: it refuses this server's developer tokens", "its check apple-music has the cause")
    #expect(try !Report(server).text.contains("signingKey:"))
  }

  @Test("prints the same verdicts as JSON")
  func json() throws {
    let ground = try AccessGround()
    for (credential, isHealthy) in [(AccessGround.android, true), ("unknown-key", false)] {
      let arguments = ["--origin", Self.page]
      let report = try Report(ground.server, arguments, credential: credential)
      let result = try Report(ground.server, arguments + ["--json"], credential: credential).result
      let json = try #require(JSONReader.read(Array(result.stdout.utf8)))
      #expect(result.status == (isHealthy ? 0 : 1) && json["healthy"] == .bool(isHealthy))
      guard case .array(let checks)? = json["checks"] else { throw TestFailure(result.stdout) }
      func names(_ verdict: String) -> [String] {
        checks.filter { $0["verdict"]?.string == verdict }.compactMap { $0["check"]?.string }
      }
      #expect(names("pass") == report.passed && names("fail") == report.failed && names("skipped") == report.skipped)
      #expect(checks.compactMap { $0["check"]?.string } == ["server", "readiness", "credential", "access", "cors"])
    }
  }

  @Test("uses colours only on a terminal")
  func colour() throws {
    let server = try Ground().serve()
    let result = try run(
      Repository.python,
      [
        Repository.script("with_terminal.py"), "/bin/sh", "-c", "exec \"$0\" doctor --url \(server.adminURL ?? "") >&2",
        Program.path,
      ], environment: [:])
    #expect(result.stderr.contains("\u{1B}[32m✓"), "\(result.stdout)\(result.stderr)")
    #expect(try !Report(server).text.contains("\u{1B}"))
  }

  @Test("tells the admin listener from the public one, from another server, and from none")
  func address() throws {
    let server = try AccessGround().server
    func failure(_ url: String, _ words: String) throws {
      let result = try Program.run(["doctor", "--url", url])
      #expect(result.status == 1 && result.stdout.hasPrefix("✗ server"), "\(result.stdout)")
      #expect(result.stdout.contains(words) && result.stdout.contains("admin.port"), "\(result.stdout)")
      #expect(result.stdout.matches(of: /depends on server/).count == 2)
    }
    try failure(server.url, "is the public listener")
    let emulator = try Emulator(try Ground())
    try failure(emulator.url, "is no admin listener of this program")
    let collector = try SpanCollector()
    try failure(collector.server.url, ": /readyz has status 501. Give the address")
    let port = try #require(server.adminURL?.split(separator: ":").last)
    try failure("http://a.example.invalid:\(port)", "does not respond")
    let named = try Ground().serve(["ADMIN_HOST": "127.0.0.1", "ADMIN_HOSTS": "['other']"])
    let host = try #require(named.adminURL)
    #expect(try Program.run(["doctor", "--url", host]).status == 0)
    server.stop()
    try failure("http://127.0.0.1:\(port)", "does not respond")
  }

  @Test("ends with status 64 for options that do not belong together, and for a credential that is unreadable")
  func usage() throws {
    let ground = try Ground()
    let url = ["--url", "http://127.0.0.1:1"]
    let empty = try ground.directory.write("\n", to: "empty")
    let long = try ground.directory.write(String(repeating: "x", count: 16_385), to: "long")
    let words = try ground.directory.write("Bearer secret-canary", to: "words")
    let credential = url + ["--credential-file"]
    for (arguments, words) in [
      (["--credential-file", empty], "--url"), (["--path", "/token"], "--url"), (url + ["--config", empty], "--url"),
      (url + ["--set", "token.ttl=1h"], "--url"), (url + ["--user-token-file", empty], "--url"),
      (["--url", "https://127.0.0.1:1"], "plain HTTP only"), (["--url", "x"], "http://"),
      (["--url", "http://127.0.0.1:1/readyz"], "without a path"), (credential + ["/nonexistent"], "does not exist"),
      (credential + [ground.directory.path], "is a directory"), (credential + [empty], "visible ASCII characters"),
      (credential + [long], "16384"), (credential + [words], "without Authorization or Bearer"),
      (credential + [ground.keyFile], "is a private key"), (url + ["--credential", "x"], "--credential"),
    ] {
      let result = try ground.run(["doctor"] + arguments)
      #expect(result.status == 64 && result.stdout.isEmpty, "\(arguments): \(result.stdout)\(result.stderr)")
      #expect(result.stderr.contains(words) && !result.stderr.contains("canary"), "\(result.stderr)")
    }
  }
}
