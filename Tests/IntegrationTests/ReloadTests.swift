import Glibc
import JSON
import TestSupport
import Testing

@Suite("A reload")
struct ReloadTests {
  @Test("says that it needs a file, if the configuration came from a pipe", arguments: [true, false])
  func pipe(_ isConfined: Bool) throws {
    let ground = try Ground()
    let file = try ground.directory.write("{ server: { landlock: \(isConfined) } }", to: "config.json5")
    let server = try withExtendedLifetime(ground) {
      try RunningServer(
        "bash", ["-c", "exec \"$0\" serve --config <(cat \"$1\")", Program.path, file],
        environment: ground.settings.merging(["PATH": "/usr/bin:/bin"]) { $1 })
    }
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("The new settings are invalid")
    #expect(server.stop() == 0)
    let reasons = server.logLines.compactMap { $0?["reason"]?.string }.filter { $0.hasPrefix("--config") }
    #expect(reasons.count == 1 && reasons[0].contains("is a pipe, which the server has read to its end at the start"))
    #expect(reasons.first?.contains("a reload needs a file") == true, "\(server.log)")
  }

  @Test("of a pipe without a writer does not hold up the end", arguments: ["config.json5", "keys.json"])
  func endlessFile(_ name: String) throws {
    let client = "{ id: 'a', jwt: { issuer: 'https://id.example', audience: 'a', jwksFile: 'keys.json' } }"
    let settings = "{ access: { anonymous: { token: true }, clients: [\(client)] } }"
    let ground = try Ground()
    _ = try ground.directory.write(#"{"keys":[]}"#, to: "keys.json")
    let file = try ground.directory.write("{ access: { anonymous: { token: true } } }", to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    if name == "keys.json" { _ = try ground.directory.write(settings, to: "config.json5") }
    let path = ground.directory.path(of: name)
    #expect(unsafe unlink(path) == 0 && mkfifo(path, 0o600) == 0)
    server.process.signal(SIGHUP)
    server.process.signal(SIGTERM)
    #expect(server.process.wait() == 0)
    #expect(server.log.contains("The server ends, so it has not finished the reload"), "\(server.log)")
    #expect(!server.log.contains(Self.refused))
  }

  @Test("of a directory says so, although Landlock denies it as it denies a file", arguments: [true, false])
  func directory(_ isConfined: Bool) throws {
    let reloadable = try Reloadable("{ server: { landlock: \(isConfined) } }")
    let path = reloadable.ground.directory.path(of: "config.json5")
    #expect(unsafe unlink(path) == 0 && mkdir(path, 0o700) == 0)
    try reloadable.reload(expecting: Self.refused)
    #expect(reloadable.server.log.contains("is a directory"), "\(reloadable.server.log)")
  }

  private static let done = "Configuration reloaded"
  private static let refused = "The new settings are invalid, so the old ones stay in use."

  /// A server with a settings file that the test rewrites.
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

    /// Status and detail of the check `settings`.
    func settingsCheck() throws -> String? {
      let check = try server.admin("/readyz").json?["checks"]?["settings"]
      return check.flatMap { check in check["status"]?.string.map { "\($0): \(check["detail"]?.string ?? "")" } }
    }

    func lifetime() throws -> Int? { try server.request("/token").lifetime }
  }

  @Test("applies a changed lifetime, and keeps the token if that and the key are the same, also with more origins")
  func settings() throws {
    let server = try Reloadable("{ token: { ttl: '1h' } }")
    let first = try server.server.request("/token").token
    #expect(try server.lifetime() == 3600)
    try server.reload(expecting: Self.done)
    #expect(try server.server.request("/token").token == first)
    try server.write(
      "{ token: { ttl: '1h' }, access: { clients: [{ id: 'web', origins: ['https://app.example.com'] }] } }")
    try server.reload(expecting: Self.done, count: 2)
    #expect(try server.server.request("/token").token == first)
    try server.write("{ token: { ttl: '2h' } }")
    try server.reload(expecting: Self.done, count: 3)
    #expect(try server.lifetime() == 7200)
    #expect(server.server.stop() == 0)
  }

  @Test(
    "with an error changes nothing and is logged once", arguments: ["{ token: { ttl: '1y' } }", "{ token:"])
  func faults(_ broken: String) throws {
    let server = try Reloadable("{ token: { ttl: '1h' } }")
    try server.write(broken)
    try server.reload(expecting: Self.refused)
    #expect(try server.lifetime() == 3600)
    #expect(server.server.stop() == 0)
    #expect(server.server.log.split(separator: "\n").count { $0.contains(Self.refused) } == 1)
  }

  @Test("says which file needs a restart, because the server has given up the right to read it")
  func outside() throws {
    let server = try Reloadable("{ token: { ttl: '1h' } }")
    let other = try Ground()
    try server.write("{ server: { tls: { certificateFile: '/etc/hostname', keyFile: '\(other.keyFile)' } } }")
    try server.reload(expecting: Self.refused)
    try server.server.process.waitForErrors(
      """
      server.tls.keyFile: the file \\"\(other.keyFile)\\" is not one that the server may read since its start; \
      restart the server to use it, or keep such files in one folder without files of other programs.
      """)
    #expect(try server.lifetime() == 3600)
    #expect(server.server.stop() == 0)
  }

  @Test(
    "changes nothing if the next start would fail because of a file, even for settings that need a restart",
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

  @Test("succeeds even if the audit file in use cannot be opened again")
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

  @Test("with a missing CA file is repeated as soon as the file is readable")
  func authoritiesLater() throws {
    let ground = try Ground()
    let file = try ground.directory.write("{}", to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    let authorities = ground.directory.path(of: "tls.crt")
    _ = try ground.directory.write("{ catalog: { caFile: '\(authorities)' } }", to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.refused)
    // No signal from here on.
    _ = try ground.certificate()
    try server.process.waitForErrors(Self.done)
    #expect(server.stop() == 0)
  }

  @Test("logs the key's fingerprint, which differs for a new key with the same ID")
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

  @Test("is counted, and the metrics show whether the settings in use are older than the files")
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

  @Test("happens without a signal when the key file changes, and the new key signs")
  func key() throws {
    let server = try Reloadable("{}")
    let old = try server.server.request("/token").token
    let next = try KeyPair()
    _ = try server.ground.directory.write(next.pem, to: "AuthKey_\(Ground.keyID).p8")
    // No signal: the server watches the file.
    try server.server.process.waitForErrors(Self.done)
    let new = try #require(try server.server.request("/token").token)
    #expect(new != old)
    let publicKey = try server.ground.directory.write(next.pem, to: "AuthKey_ZZZ1234567.p8")
    let inspection = try Program.run(["inspect", new, "--key-file", publicKey], environment: [:])
    #expect(inspection.stdout.contains("ok       signature  "))
    #expect(server.server.stop() == 0)
  }

  @Test("keeps the old key if the new file is no key")
  func wrongKey() throws {
    let server = try Reloadable("{}")
    let old = try server.server.request("/token").token
    _ = try server.ground.directory.write("not a key", to: "AuthKey_\(Ground.keyID).p8")
    try server.reload(expecting: Self.refused)
    #expect(try server.server.request("/token").token == old)
    #expect(server.server.stop() == 0)
  }

  @Test("with an unusable key file is repeated as soon as the file is usable")
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
    // No signal from here on: the server watches the unusable file and its mode.
    _ = try ground.directory.write(try KeyPair().pem, to: "AuthKey_NEXT123456.p8", mode: 0o660)
    try server.process.waitForErrors(Self.refused, count: 2)
    unsafe chmod(next, 0o600)
    try server.process.waitForErrors(Self.done)
    let token = try CompactToken(try #require(try server.request("/token").token))
    #expect(token.header["kid"]?.string == "NEXT123456")
    #expect(server.stop() == 0)
  }

  @Test("never turns HTTPS into HTTP, and the log names the setting that needs a restart")
  func tlsStays() throws {
    let ground = try Ground()
    let (certificate, keyFile) = try ground.certificate()
    let tls = "{ server: { tls: { certificateFile: '\(certificate)', keyFile: '\(keyFile)' } } }"
    let file = try ground.directory.write(tls, to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    _ = try ground.directory.write("{}", to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.done)
    try server.process.waitForErrors(#""setting":"server.tls.certificateFile""#)
    #expect(try server.request("/token", "--cacert", ground.certificateFile).status == 200)
    #expect(server.stop() == 0)
  }

  @Test("applies a new certificate to new connections")
  func certificate() throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings())
    let next = try KeyPair()
    _ = try ground.certificate(next)
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.done)
    // The client verifies with the new certificate, which the old one does not match.
    #expect(try server.request("/token", "--cacert", ground.certificateFile).status == 200)
    #expect(server.stop() == 0)
  }

  @Test("keeps the old values of settings that need a restart, and names them until the files have these again")
  func fixedSettings() throws {
    let server = try Reloadable("{ server: { limits: { bodyBytes: '1KB' } } }")
    func pendingMetric() throws -> Double? {
      try MetricsPage(of: server.server)["musickit_setting_needs_restart", ["setting": "server.limits.bodyBytes"]]
    }
    #expect(try server.settingsCheck() == "ok: those in the files are in use")
    try server.write("{ server: { limits: { bodyBytes: '2KB' } }, log: { level: 'info' }, token: { ttl: '1h' } }")
    try server.reload(expecting: Self.done)
    try server.server.process.waitForErrors(#""setting":"server.limits.bodyBytes""#)
    #expect(!server.server.log.contains(#""setting":"log.level""#), "that is the default")
    let long = String(repeating: " ", count: 1500)
    #expect(try server.server.request("/token", "-d", long).status == 413)
    #expect(try server.lifetime() == 3600)
    let pending = "degraded: these have changed, and need a restart: server.limits.bodyBytes"
    #expect(try server.settingsCheck() == pending)
    #expect(try pendingMetric() == 1)
    let doctor = try Program.run(["doctor", "--url", try #require(server.server.adminURL)], environment: [:])
    #expect(doctor.status == 1 && doctor.stdout.contains("need a restart: server.limits.bodyBytes"), "\(doctor.stdout)")
    // A refused reload does not hide it for longer than it lasts.
    try server.write("{ token: { ttl: '1y' } }")
    try server.reload(expecting: Self.refused)
    #expect(
      try server.settingsCheck()?.hasPrefix(
        "degraded: the last reload was refused, so older ones are in use: token.ttl ")
        == true)
    try server.write("{ server: { limits: { bodyBytes: '1KB' } } }")
    try server.reload(expecting: Self.done, count: 2)
    #expect(try server.settingsCheck() == "ok: those in the files are in use")
    #expect(try pendingMetric() == nil)
    #expect(server.server.stop() == 0)
  }

  @Test("logs in to the store with a changed password, without a signal")
  func secrets() throws {
    let store = try RedisServer(["--requirepass", "one"])
    let ground = try Ground()
    let password = try ground.directory.write("one", to: "password")
    let server = try ground.serve(["SHARED_URL": "unix://\(store.socket)", "SHARED_PASSWORD_FILE": password])
    func isUsable() throws -> Bool { try MetricsPage(of: server)["musickit_shared_store_usable"] == 1 }
    try eventually("the first password") { try isUsable() }
    try store.run("-a", "one", "CONFIG", "SET", "requirepass", "two")
    // The server's connections end, and it cannot log in again.
    for type in ["normal", "pubsub"] { try store.run("-a", "two", "CLIENT", "KILL", "TYPE", type) }
    try eventually("a refusal") { try !isUsable() }
    _ = try ground.directory.write("two", to: "password")
    try eventually("the second password") { try isUsable() }
    #expect(server.stop() == 0)
  }
}
