import Glibc
import TestSupport
import Testing

@Suite("The server with TLS")
struct TLSTests {
  private static func server(_ ground: Ground, _ more: [String: String] = [:]) throws -> RunningServer {
    try ground.serve(try ground.tlsSettings().merging(more) { $1 })
  }

  /// Runs `openssl s_client` with a request on its standard input.
  private static func client(_ server: RunningServer, _ ground: Ground, _ options: [String]) throws -> ProcessResult {
    let request = "GET /token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    let fixed = ["-connect", "127.0.0.1:\(server.port)", "-CAfile", ground.certificateFile, "-verify_return_error"]
    // With -ign_eof, openssl waits for the end of the server, not for the end of standard input.
    return try run("openssl", ["s_client"] + fixed + ["-ign_eof"] + options, input: Array(request.utf8))
  }

  @Test("serves a token in either version", arguments: ["1.2", "1.3"])
  func versions(_ version: String) throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    #expect(server.url.hasPrefix("https://"))
    let response = try server.request(
      "/token", "--cacert", ground.certificateFile, "--tlsv\(version)", "--tls-max", version)
    #expect(response.status == 200)
    #expect(response.token != nil)
    #expect(server.stop() == 0)
  }

  @Test("refuses TLS 1.1")
  func oldVersion() throws {
    let ground = try Ground()
    let result = try Self.client(try Self.server(ground), ground, ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"])
    #expect(result.status != 0)
    #expect(!result.stdout.contains("HTTP/1.1 200"))
  }

  @Test("selects http/1.1 by ALPN without HTTP/2, even for a client that prefers h2")
  func alpn() throws {
    let ground = try Ground()
    let result = try Self.client(
      try Self.server(ground, ["SERVER_HTTP2": "false"]), ground, ["-alpn", "h2,http/1.1"])
    #expect(result.stdout.contains("ALPN protocol: http/1.1"))
    #expect(result.stdout.contains("HTTP/1.1 200 OK"))
  }

  @Test("resumes a session", arguments: ["-tls1_2", "-tls1_3"], ["1", "2"])
  func resumption(_ version: String, _ loops: String) throws {
    let ground = try Ground()
    let server = try Self.server(ground, ["SERVER_LOOPS": loops])
    let session = ground.directory.path(of: "session")
    let first = try Self.client(server, ground, [version, "-sess_out", session])
    #expect(first.stdout.contains("New, "))
    let second = try Self.client(server, ground, [version, "-sess_in", session])
    #expect(second.stdout.contains("Reused, "))
    #expect(second.stdout.contains("HTTP/1.1 200 OK"))
  }

  @Test("sends close_notify after the whole content")
  func closeNotify() throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    // curl with OpenSSL 3 ends with 56 if the close_notify alert is missing.
    let response = try server.request("/openapi.json", "--cacert", ground.certificateFile, "-H", "Connection: close")
    #expect(response.status == 200 && response.json != nil)
  }

  @Test("answers plain HTTP with 400 and the advice to use https")
  func plainHTTP() throws {
    let ground = try Ground()
    let connection = try Self.server(ground).connect()
    connection.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    let response = try connection.response()
    #expect(response.status == 400)
    #expect(response.errorDetail?.contains("https") == true)
  }

  @Test("warns of a certificate key that others can read")
  func readableKey() throws {
    let ground = try Ground()
    let settings = try ground.tlsSettings()
    let key = try TextFile.read(ground.directory.path(of: "tls.key"))
    try ground.directory.write(key, to: "tls.key", mode: 0o644)
    let server = try ground.serve(settings)
    server.stop()
    #expect(server.log.contains("tls.key"))
    #expect(try ground.run(["check-config"], settings).stderr.contains("tls.key"))
  }

  @Test("selects http/1.0 by ALPN for a client that offers nothing newer")
  func oldALPN() throws {
    let ground = try Ground()
    let result = try Self.client(try Self.server(ground), ground, ["-alpn", "http/1.0"])
    #expect(result.stdout.contains("ALPN protocol: http/1.0"))
    #expect(result.stdout.contains("HTTP/1.1 200 OK"))
  }

  @Test("refuses RSA signatures with SHA-224")
  func sha224() throws {
    let ground = try Ground()
    _ = try ground.certificate(KeyPair(.rsa(2048)))
    let server = try ground.serve([
      "SERVER_TLS_CERTIFICATE_FILE": ground.certificateFile,
      "SERVER_TLS_KEY_FILE": ground.directory.path(of: "tls.key"),
    ])
    #expect(try Self.client(server, ground, ["-tls1_2", "-sigalgs", "RSA+SHA256"]).stdout.contains("200 OK"))
    let result = try Self.client(server, ground, ["-tls1_2", "-sigalgs", "RSA+SHA224"])
    #expect(result.status != 0)
    #expect(!result.stdout.contains("200 OK"))
  }

  @Test("sends server.tls.hsts in every response over TLS, in none without TLS, and follows a reload")
  func strictTransportSecurity() throws {
    let ground = try Ground()
    let (certificate, keyFile) = try ground.certificate()
    func settings(_ hsts: String) -> String {
      "{ server: { tls: { certificateFile: '\(certificate)', keyFile: '\(keyFile)', \(hsts) } } }"
    }
    let file = try ground.directory.write(settings("hsts: '1h'"), to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    func field(_ target: String, _ options: String...) throws -> String? {
      try ParsedResponse(curl: ["--cacert", ground.certificateFile] + options + ["\(server.url)\(target)"])[
        "Strict-Transport-Security"]
    }
    #expect(try field("/token") == "max-age=3600")
    #expect(try field("/nothing") == "max-age=3600")
    #expect(try field("/token", "-X", "BREW") == "max-age=3600")
    #expect(try field("/token", "--http1.1", "-H", "Content-Length: x") == "max-age=3600", "refused before any route")
    let plain = try server.connect()
    plain.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try plain.response()["Strict-Transport-Security"] == nil)
    #expect(try server.admin("/healthz")["Strict-Transport-Security"] == nil)
    _ = try ground.directory.write(settings(""), to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Configuration reloaded")
    #expect(try field("/token") == nil)
    #expect(server.stop() == 0)
  }

  @Test("ends with status 0 after a request")
  func drain() throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    #expect(try server.request("/token", "--cacert", ground.certificateFile).status == 200)
    #expect(server.stop() == 0)
  }
}
