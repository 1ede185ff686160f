import Glibc
import TestSupport
import Testing

@Suite("A server that requests client certificates")
struct ClientCertificateTests {
  /// A server that requests certificates of an authority, and the files of a client.
  private struct Certified {
    let ground: Ground
    let server: RunningServer
    let authority: Certificate

    init(_ more: [String: String] = [:]) throws {
      ground = try Ground()
      authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
      let authorityFile = try ground.directory.write(authority.pem, to: "client-ca.pem")
      let own = try ground.tlsSettings().merging(["SERVER_TLS_CLIENT_CA_FILE": authorityFile]) { $1 }
      server = try ground.serve(own.merging(more) { $1 })
      try issue("partner", by: authority)
    }

    /// Writes a certificate and its key.
    func issue(_ name: String, by authority: Certificate?, usage: String? = nil) throws {
      let certificate = try Certificate(
        name, key: KeyPair(), issuer: authority, alternativeNames: ["URI:spiffe://example.com/\(name)"],
        extendedKeyUsage: usage)
      _ = try ground.directory.write(certificate.pem, to: "\(name).crt")
      _ = try ground.directory.write(certificate.key.pem, to: "\(name).key")
    }

    /// The exit status and the output of curl.
    func curl(_ path: String, as name: String? = nil, _ options: [String] = []) throws -> ProcessResult {
      let credential =
        name.map {
          ["--cert", ground.directory.path(of: "\($0).crt"), "--key", ground.directory.path(of: "\($0).key")]
        } ?? []
      return try run(
        "curl",
        ["-sS", "--noproxy", "*", "-w", "%{http_code}", "-o", "/dev/null", "--cacert", ground.certificateFile]
          + credential + options + ["\(server.url)\(path)"])
    }

    /// Runs `openssl s_client`. The options contain the partner's certificate or a session to resume.
    func resumable(_ options: [String]) throws -> ProcessResult {
      let request = "GET /token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      return try run(
        "openssl", ["s_client", "-connect", "127.0.0.1:\(server.port)", "-ign_eof"] + options,
        input: Array(request.utf8))
    }

    var partner: [String] {
      ["-cert", ground.directory.path(of: "partner.crt"), "-key", ground.directory.path(of: "partner.key")]
    }
  }

  @Test(
    "accepts a valid certificate and a client without a certificate", arguments: ["/token", "/healthz"], ["1.2", "1.3"])
  func taken(_ path: String, _ version: String) throws {
    let certified = try Certified()
    let options = ["--tlsv\(version)", "--tls-max", version]
    #expect(try certified.curl(path, as: "partner", options).stdout == "200")
    #expect(try certified.curl(path, options).stdout == "200")
  }

  @Test(
    "ends the handshake for an untrusted certificate and for a server certificate", arguments: ["1.2", "1.3"],
    ["stranger", "server"])
  func refused(_ version: String, _ name: String) throws {
    let certified = try Certified()
    try certified.issue("stranger", by: nil)
    try certified.issue("server", by: certified.authority, usage: "serverAuth")
    let result = try certified.curl("/token", as: name, ["--tlsv\(version)", "--tls-max", version])
    // 35: the handshake failed; 56: the alert arrived with the first read.
    #expect([35, 56].contains(result.status) && result.stdout == "000", "\(result.status) \(result.stderr)")
    let page = try MetricsPage(of: certified.server)
    #expect(page["musickit_tls_failures_total", ["cause": "client_certificate"]] == 1)
    #expect(certified.server.stop() == 0)
    #expect(!certified.server.log.contains("/token"))
  }

  @Test("resumes a session until the authorities change", arguments: ["-tls1_2", "-tls1_3"])
  func resumption(_ version: String) throws {
    let certified = try Certified()
    let session = certified.ground.directory.path(of: "session")
    let first = try certified.resumable([version, "-sess_out", session] + certified.partner)
    #expect(first.stdout.contains("New, ") && first.stdout.contains("HTTP/1.1 200 OK"))
    let second = try certified.resumable([version, "-sess_in", session])
    #expect(second.stdout.contains("Reused, ") && second.stdout.contains("HTTP/1.1 200 OK"))

    let other = try Certificate("CA 2", key: KeyPair(), isAuthority: true)
    _ = try certified.ground.directory.write(other.pem, to: "client-ca.pem")
    certified.server.process.signal(SIGHUP)
    try certified.server.process.waitForErrors("Configuration reloaded")
    let third = try certified.resumable([version, "-sess_in", session])
    #expect(third.stdout.contains("New, ") && third.stdout.contains("HTTP/1.1 200 OK"))
    #expect(try certified.curl("/token", as: "partner").stdout == "000")
    try certified.issue("newcomer", by: other)
    #expect(try certified.curl("/token", as: "newcomer").stdout == "200")
  }

  @Test("warns of an expired authority, at the start and in check-config")
  func expiredAuthority() throws {
    let ground = try Ground()
    let authority = try Certificate("CA", key: KeyPair(), isAuthority: true, notBefore: -7200, notAfter: -3600)
    let file = try ground.directory.write(authority.pem, to: "client-ca.pem")
    let settings = try ground.tlsSettings().merging(["SERVER_TLS_CLIENT_CA_FILE": file]) { $1 }
    let warning = "1 of 1 CA certificates in '\(file)' have expired"
    #expect(try ground.run(["check-config"], settings).stderr.contains(warning))
    let server = try ground.serve(settings)
    #expect(server.stop() == 0)
    #expect(server.log.split(separator: "\n").count { $0.contains(warning) } == 1, "\(server.log)")
  }

  @Test("notices a changed authority file without a signal")
  func watched() throws {
    let certified = try Certified()
    let other = try Certificate("CA 2", key: KeyPair(), isAuthority: true)
    _ = try certified.ground.directory.write(other.pem, to: "client-ca.pem")
    try certified.server.process.waitForErrors("Configuration reloaded")
    #expect(try certified.curl("/token", as: "partner").stdout == "000")
  }

  @Test(
    "reports an authority file without a certificate as a configuration error", arguments: ["serve", "check-config"])
  func fault(_ command: String) throws {
    let ground = try Ground()
    let settings = try ground.tlsSettings()
    let file = settings["SERVER_TLS_KEY_FILE"] ?? ""
    let result = try ground.run([command], settings.merging(["SERVER_TLS_CLIENT_CA_FILE": file]) { $1 })
    #expect(result.status == 78)
    #expect(result.stderr.contains("'\(file)' contains no certificate but a PEM block labelled 'PRIVATE KEY'"))
    #expect(result.stderr.hasPrefix("server.tls.clientCAFile: "))
  }

  @Test("refuses a certificate after the removal of its CA, even on an open connection")
  func authorityGone() throws {
    let certified = try Certified([
      "ACCESS_CLIENTS": "[{ id: 'partner', clientCertificate: { san: 'spiffe://example.com/partner' } }]",
      "ACCESS_ANONYMOUS": "",
    ])
    let client = try ChildProcess(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(certified.server.port)", "-quiet"] + certified.partner,
      holdsInput: true)
    func status() throws -> String? {
      client.send("HEAD /token HTTP/1.1\r\nHost: localhost\r\n\r\n")
      var status: String?
      while let line = try client.line() {
        if line.hasPrefix("HTTP/1.1 ") { status = String(line.dropFirst(9).prefix(3)) }
        if line == "\r" { return status }
      }
      return status
    }
    #expect(try status() == "200")
    let other = try Certificate("other CA", key: KeyPair(), isAuthority: true)
    _ = try certified.ground.directory.write(other.pem, to: "client-ca.pem")
    certified.server.process.signal(SIGHUP)
    try certified.server.process.waitForErrors("Configuration reloaded")
    #expect(try status() == "401")
    #expect(try client.line() == nil, "the connection has ended")
    #expect(certified.server.stop() == 0)
    #expect(certified.server.log.contains("outdated_certificate"))
  }
}
