import Glibc
import JSON
import TestSupport
import Testing

@Suite("A reload", .timeLimit(.minutes(10)))
struct ReloadTests {
  private static let done = "Configuration reloaded"
  private static let refused = "The new settings cannot be used; the old ones stay."

  /// A server whose settings are in a file that the test rewrites.
  private struct Reloadable {
    let ground: Ground
    let server: RunningServer

    init(_ settings: String, _ more: [String: String] = [:]) throws {
      ground = try Ground()
      let file = try ground.directory.write(settings, to: "config.json5")
      server = try ground.serve(more.merging(["MUSICKIT_CONFIG": file]) { $1 })
    }

    func write(_ settings: String) throws {
      _ = try ground.directory.write(settings, to: "config.json5")
    }

    /// Reloads by signal and waits for the outcome, the `count`th of its kind.
    func reload(expecting outcome: String, count: Int = 1) throws {
      server.process.signal(SIGHUP)
      try server.process.waitForErrors(outcome, count: count)
    }

    /// From `iat`, which is backdated by a minute, to `exp`; `expiresIn` would count down meanwhile.
    func lifetime() throws -> Int? {
      let json = try server.request("/token").json
      guard let issued = json?["issuedAt"]?.integer, let expires = json?["expiresAt"]?.integer else { return nil }
      return expires - issued - 60
    }
  }

  @Test("takes a changed lifetime into use, and keeps the token when nothing has changed")
  func settings() throws {
    let server = try Reloadable("{ token: { ttl: '1h' } }")
    let first = try server.server.request("/token").token
    #expect(try server.lifetime() == 3600)
    try server.reload(expecting: Self.done)
    #expect(try server.server.request("/token").token == first)
    try server.write("{ token: { ttl: '2h' } }")
    try server.reload(expecting: Self.done, count: 2)
    #expect(try server.lifetime() == 7200)
    #expect(server.server.stop() == 0)
  }

  @Test(
    "changes nothing if any of the new is wrong, and says what", arguments: ["{ token: { ttl: '1y' } }", "{ token:"])
  func faults(_ broken: String) throws {
    let server = try Reloadable("{ token: { ttl: '1h' } }")
    try server.write(broken)
    try server.reload(expecting: Self.refused)
    #expect(try server.lifetime() == 3600)
    #expect(server.server.stop() == 0)
    #expect(server.server.log.split(separator: "\n").count { $0.contains(Self.refused) } == 1)
  }

  @Test(
    "changes nothing if the next start would fail on a file, even one that waits for a restart",
    arguments: [
      ("catalog: { caFile: '/nonexistent/ca.pem' }", "catalog.caFile: "),
      ("audit: { file: '/tmp' }", "audit.file: the file \\\"/tmp\\\" is a directory; write "),
      (
        "access: { clients: [{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: '/etc/hostname' } }] }",
        "access.clients[0].jwt.jwksFile: "
      ),
    ])
  func files(_ broken: String, _ fault: String) throws {
    let server = try Reloadable("{ token: { ttl: '1h' } }")
    try server.write("{ token: { ttl: '2h' }, \(broken) }")
    try server.reload(expecting: Self.refused)
    #expect(try server.lifetime() == 3600)
    #expect(server.server.stop() == 0)
    #expect(server.server.log.contains(#""reason":"\#(fault)"#), "\(server.server.log)")
  }

  @Test("is not held up by an audit file in use that could not be opened again")
  func auditInUse() throws {
    let ground = try Ground()
    let folder = ground.directory.path(of: "audit")
    unsafe mkdir(folder, 0o700)
    let audit = "audit: { file: '\(folder)/audit.log' }"
    let file = try ground.directory.write("{ \(audit) }", to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    unsafe rename(folder, folder + "-moved")
    _ = try ground.directory.write("{ token: { ttl: '1h' }, \(audit) }", to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.done)
    #expect(server.stop() == 0)
  }

  @Test("takes the authorities that new settings name as soon as they can be read")
  func authoritiesLater() throws {
    let ground = try Ground()
    let file = try ground.directory.write("{}", to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    let authorities = ground.directory.path(of: "tls.crt")
    _ = try ground.directory.write("{ catalog: { caFile: '\(authorities)' } }", to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.refused)
    // From here on no signal.
    _ = try ground.certificate()
    try server.process.waitForErrors(Self.done)
    #expect(server.stop() == 0)
  }

  @Test("logs the key's fingerprint, which tells a new key under an old ID from the old key")
  func fingerprint() throws {
    let server = try Reloadable("{}")
    try server.reload(expecting: Self.done)
    _ = try server.ground.directory.write(try KeyPair().pem, to: "AuthKey_\(Ground.keyID).p8")
    try server.reload(expecting: Self.done, count: 2)
    #expect(server.server.stop() == 0)
    let lines = server.server.log.split(separator: "\n").compactMap { JSONReader.read(Array($0.utf8)) }
    let reloads = lines.filter { $0["message"]?.string == Self.done }
    #expect(reloads.allSatisfy { $0["key.id"]?.string == Ground.keyID })
    let fingerprints = reloads.compactMap { $0["key.fingerprint"]?.string }
    #expect(fingerprints.allSatisfy { $0.count == 64 })
    #expect(fingerprints.count == reloads.count && Set(fingerprints).count == 2)
  }

  @Test("is counted, and the metrics say while the server runs on older settings than the files hold")
  func metrics() throws {
    let server = try Reloadable("{}")
    func expect(_ reloads: Double, refused: Double, isStale: Double) throws {
      let page = try MetricsPage(of: server.server)
      #expect(page["musickit_reloads_total"] == reloads)
      #expect(page["musickit_reloads_refused_total"] == refused)
      #expect(page["musickit_settings_stale"] == isStale)
    }
    try expect(0, refused: 0, isStale: 0)
    try server.write("{ token: { ttl: '1y' } }")
    try server.reload(expecting: Self.refused)
    try expect(1, refused: 1, isStale: 1)
    try server.reload(expecting: Self.refused, count: 2)
    try expect(2, refused: 2, isStale: 1)
    try server.write("{ token: { ttl: '1h' } }")
    try server.reload(expecting: Self.done)
    try expect(3, refused: 2, isStale: 0)
    #expect(server.server.stop() == 0)
  }

  @Test("signs with a new key from the moment that its file is swapped")
  func key() throws {
    let server = try Reloadable("{}")
    let old = try server.server.request("/token").token
    let next = try KeyPair()
    _ = try server.ground.directory.write(next.pem, to: "AuthKey_\(Ground.keyID).p8")
    // No signal: the file is watched.
    try server.server.process.waitForErrors(Self.done)
    let new = try #require(try server.server.request("/token").token)
    #expect(new != old)
    let publicKey = try server.ground.directory.write(next.pem, to: "AuthKey_ZZZ1234567.p8")
    let inspection = try Program.run(["inspect", new, "--key-file", publicKey], environment: [:])
    #expect(inspection.stdout.contains("ok       signature  "))
    #expect(server.server.stop() == 0)
  }

  @Test("keeps the old key when the new file is no key")
  func wrongKey() throws {
    let server = try Reloadable("{}")
    let old = try server.server.request("/token").token
    _ = try server.ground.directory.write("not a key", to: "AuthKey_\(Ground.keyID).p8")
    try server.reload(expecting: Self.refused)
    #expect(try server.server.request("/token").token == old)
    #expect(server.server.stop() == 0)
  }

  @Test("takes the key that new settings name as soon as its file is there and can be used")
  func keyLater() throws {
    let ground = try Ground()
    let next = ground.directory.path(of: "AuthKey_NEXT123456.p8")
    let file = try ground.directory.write("{ musickit: { keyFile: '\(ground.keyFile)' } }", to: "config.json5")
    var environment = ground.settings.merging(["MUSICKIT_CONFIG": file]) { $1 }
    environment["MUSICKIT_KEY_FILE"] = nil
    let server = try RunningServer([], environment: environment)
    _ = try ground.directory.write("{ musickit: { keyFile: '\(next)' } }", to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.refused)
    // From here on no signal: the file that could not be used is watched, and its mode with it.
    _ = try ground.directory.write(try KeyPair().pem, to: "AuthKey_NEXT123456.p8", mode: 0o660)
    try server.process.waitForErrors(Self.refused, count: 2)
    unsafe chmod(next, 0o600)
    try server.process.waitForErrors(Self.done)
    let token = try CompactToken(try #require(try server.request("/token").token))
    #expect(token.header["kid"]?.string == "NEXT123456")
    #expect(server.stop() == 0)
  }

  @Test("never turns HTTPS into HTTP, and says that this takes a restart")
  func tlsStays() throws {
    let ground = try Ground()
    let (certificate, keyFile) = try ground.certificate()
    let tls = "{ server: { tls: { certificateFile: '\(certificate)', keyFile: '\(keyFile)' } } }"
    let file = try ground.directory.write(tls, to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    _ = try ground.directory.write("{}", to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.done)
    #expect(server.log.contains(#""setting":"server.tls""#))
    #expect(try server.request("/token", "--cacert", ground.certificateFile).status == 200)
    #expect(server.stop() == 0)
  }

  @Test("serves a new certificate to new connections")
  func certificate() throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings())
    let next = try KeyPair()
    _ = try ground.certificate(next)
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.done)
    // Verified against the new certificate, which the old one does not match.
    #expect(try server.request("/token", "--cacert", ground.certificateFile).status == 200)
    #expect(server.stop() == 0)
  }

  @Test("says which settings wait for a restart, and goes on with the old ones")
  func fixedSettings() throws {
    let server = try Reloadable("{ server: { limits: { bodyBytes: '1KB' } } }")
    try server.write("{ server: { limits: { bodyBytes: '2KB' } } }")
    try server.reload(expecting: Self.done)
    #expect(server.server.log.contains(#""setting":"server.limits""#))
    let long = String(repeating: " ", count: 1500)
    #expect(try server.server.request("/token", "-d", long).status == 413)
    #expect(server.server.stop() == 0)
  }
}
