import JSON
import TestSupport
import Testing

/// A server with an active key and perhaps a next key, and an emulator that knows some of them.
private struct Rotation {
  static let nextID = "DEF1234567"

  let ground: Ground
  let nextFile: String

  init() throws {
    ground = try Ground()
    nextFile = try ground.directory.write(try KeyPair().pem, to: "AuthKey_\(Self.nextID).p8")
  }

  /// The keys in the configuration: the old one active, and the new one with these members.
  func keys(_ members: String = "state: 'next'") -> String {
    "[{ file: '\(ground.keyFile)', state: 'active' }, { file: '\(nextFile)', \(members) }]"
  }

  func write(_ keys: String, team: String = Ground.teamID, ttl: String = "12h") throws -> String {
    try ground.directory.write(
      """
      { musickit: { teamID: '\(team)', keys: \(keys) }, token: { ttl: '\(ttl)', maxTTL: '\(ttl)' },
        access: { anonymous: { token: true, catalog: true } } }
      """, to: "config.json5")
  }

  /// Starts a server with these keys; without an emulator, its catalog is turned off.
  func serve(_ keys: String, _ emulator: Emulator?, ttl: String = "12h") throws -> RunningServer {
    var settings = ["SERVER_PORT": "0", "ADMIN_PORT": "0"]
    settings["MUSICKIT_CONFIG"] = try write(keys, ttl: ttl)
    settings.merge(emulator?.settings ?? ["CATALOG_ENABLED": "false"]) { $1 }
    return try withExtendedLifetime(ground.directory) { try RunningServer([], environment: settings) }
  }

  func reload(_ server: RunningServer, _ keys: String) throws {
    _ = try write(keys)
    server.process.signal(1)
    try server.process.waitForErrors("Configuration reloaded")
  }
}

extension RunningServer {
  /// The key ID in the token that a caller gets.
  fileprivate func keyID() throws -> String? {
    try request("/token").token.flatMap { try CompactToken($0).header["kid"]?.string }
  }

  /// The readiness check of the rotation.
  fileprivate func rotationCheck() throws -> String? {
    try admin("/readyz").json?["checks"]?["keyRotation"]?["status"]?.string
  }

  fileprivate func rotationDetail() throws -> String? {
    try admin("/readyz").json?["checks"]?["keyRotation"]?["detail"]?.string
  }

  /// The first line with this message, as JSON.
  fileprivate func line(_ message: String) -> JSONValue? {
    logLines.compactMap { $0 }.first { $0["message"]?.string?.hasPrefix(message) ?? false }
  }

  fileprivate func state(_ key: String, _ state: String) throws -> Double? {
    try MetricsPage(of: self)["musickit_signing_key_state", ["key": key, "state": state]]
  }
}

@Suite("A next key")
struct KeyRotationTests {
  @Test("leaves the old key's expiry at that of the longest token, although a reload shortens lifetimes")
  func shorterLifetime() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile])
    let server = try rotation.serve("[{ file: '\(rotation.ground.keyFile)', state: 'active' }]", emulator, ttl: "30d")
    let expiry = try #require(try server.request("/token").json?["expiresAt"]?.integer)
    _ = try rotation.write(rotation.keys(), ttl: "1h")
    server.process.signal(1)
    try server.process.waitForErrors("Signing key promoted")
    let name = "musickit_signing_key_tokens_expire_timestamp_seconds"
    let told = try #require(try MetricsPage(of: server)[name, ["key": Ground.keyID]])
    #expect(told >= Double(expiry))
    // A later reload does not shorten it either.
    _ = try rotation.write(rotation.keys(), ttl: "2h")
    server.process.signal(1)
    try server.process.waitForErrors("Configuration reloaded", count: 2)
    #expect(try MetricsPage(of: server)[name, ["key": Ground.keyID]] == told)
    #expect(server.stop() == 0)
  }

  @Test("that signs stops if a reload moves its notBefore into the future")
  func postponed() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile])
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Signing key promoted")
    try rotation.reload(server, rotation.keys("state: 'next', notBefore: '2099-01-01T00:00:00Z'"))
    #expect(try server.keyID() == Ground.keyID)
    #expect(try server.state(Rotation.nextID, "signing") == 0)
    #expect(server.stop() == 0)
  }

  @Test("that signs needs a new proof for another team")
  func otherTeam() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile])
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Signing key promoted")
    _ = try rotation.write(rotation.keys(), team: "TEAM999999")
    server.process.signal(1)
    try server.process.waitForErrors("Next signing key refused")
    #expect(try server.keyID() == Ground.keyID)
    #expect(server.stop() == 0)
  }

  @Test("signs after Apple Music has accepted a token of it, and the server says until when the old tokens live")
  func promotion() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile])
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Signing key promoted")
    #expect(try emulator.allRequests().map(\.path) == ["/v1/test"], "one proof")
    #expect(try server.keyID() == Rotation.nextID)
    #expect(try server.rotationCheck() == "ok")
    #expect(try server.state(Rotation.nextID, "signing") == 1)
    #expect(try server.state(Ground.keyID, "replaced") == 1)
    let expiry = try MetricsPage(of: server)[
      "musickit_signing_key_tokens_expire_timestamp_seconds", ["key": Ground.keyID]]
    #expect(try server.request(CatalogGround.album).status == 200)
    #expect(try emulator.allRequests().last?.developerToken.hasPrefix("accepted: ") == true)
    #expect(server.stop() == 0)
    let line = try #require(server.line("Signing key promoted"))
    #expect(line["key.id"]?.string == Rotation.nextID && line["key.previous"]?.string == Ground.keyID)
    #expect(line["tokens.expire"]?.string?.hasSuffix("Z") == true && expiry ?? 0 > 0)
    let audit = server.logLines.compactMap { $0 }.first { $0["audit.event"]?.string == "key_promoted" }
    #expect(audit?["key.id"]?.string == Rotation.nextID && audit?["key.previous"]?.string == Ground.keyID)
  }

  @Test("that Apple Music refuses never signs, until a reload finds it accepted")
  func refusal() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground)
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Next signing key refused")
    #expect(try server.keyID() == Ground.keyID)
    #expect(try server.admin("/readyz").status == 200)
    #expect(try server.rotationCheck() == "degraded")
    #expect(try server.state(Rotation.nextID, "refused") == 1)
    #expect(try server.rotationDetail()?.contains("Either key, key ID and team ID do not belong together") == true)
    let port = emulator.url.split(separator: ":").last ?? ""
    emulator.stop()
    let other = try Emulator(rotation.ground, ["--key-file", rotation.nextFile, "--port", String(port)])
    try rotation.reload(server, rotation.keys())
    try server.process.waitForErrors("Signing key promoted")
    #expect(try server.keyID() == Rotation.nextID)
    #expect(server.stop() == 0)
    other.stop()
  }

  @Test("that Apple Music refuses does not hide that it refuses the active key, too")
  func bothRefused() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(try Ground())
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Next signing key refused")
    try server.process.waitForErrors("Apple Music refuses tokens of the signing key (401)")
    #expect(server.stop() == 0)
    #expect(server.line("Apple Music refuses tokens of the signing key")?["key.id"]?.string == Ground.keyID)
    withExtendedLifetime(emulator) {}
  }

  @Test("that a reload makes the active one is judged, although Apple Music has accepted tokens of the key before")
  func judgedAfterReload() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground)
    let server = try rotation.serve("[{ file: '\(rotation.ground.keyFile)', state: 'active' }]", emulator)
    #expect(try server.request(CatalogGround.album).status == 200)
    try rotation.reload(server, "[{ file: '\(rotation.nextFile)', state: 'active' }]")
    try server.process.waitForErrors("Apple Music refuses tokens of the signing key (401)")
    #expect(server.stop() == 0)
    #expect(server.line("Apple Music refuses tokens of the signing key")?["key.id"]?.string == Rotation.nextID)
    withExtendedLifetime(emulator) {}
  }

  @Test("that Apple Music refuses after its promotion gives way to the active key")
  func fallback() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile])
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Signing key promoted")
    let port = emulator.url.split(separator: ":").last ?? ""
    emulator.stop()
    let other = try Emulator(rotation.ground, ["--port", String(port)])
    #expect(try server.request(CatalogGround.album).status == 502)
    try server.process.waitForErrors("Signing key fell back")
    #expect(try server.keyID() == Ground.keyID)
    #expect(try server.request(CatalogGround.album).status == 200)
    #expect(try server.rotationCheck() == "degraded")
    #expect(server.stop() == 0)
    other.stop()
  }

  @Test("without a verdict has the reason in the log and in /readyz")
  func noVerdict() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile, "--fault", "status=503"])
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Next signing key not proved")
    #expect(try server.rotationDetail()?.hasSuffix(": Apple Music responded with status 503") == true)
    #expect(server.stop() == 0)
    let line = try #require(server.line("Next signing key not proved"))
    #expect(line["reason"]?.string == "Apple Music responded with status 503.")
    #expect(line["key.id"]?.string == Rotation.nextID)
  }

  @Test("is not to blame if the clock is wrong, and says so")
  func clock() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile, "--clock-skew=-400"])
    let server = try rotation.serve(rotation.keys(), emulator)
    try server.process.waitForErrors("Next signing key refused")
    #expect(try server.rotationDetail()?.contains("s ahead of Apple's") == true)
    #expect(try server.request(CatalogGround.album).status == 502)
    try server.process.waitForErrors("Apple Music refuses this server's developer token.")
    #expect(server.stop() == 0)
    let line = try #require(server.line("Next signing key refused"))
    #expect(line["reason"]?.string?.contains("clock is") == true)
    #expect(!server.log.contains("Compare"))
    let refusal = try #require(server.line("Apple Music refuses this server's developer token."))
    #expect(refusal["key.id"]?.string == Ground.keyID)
  }

  @Test("is not necessary: a reload with another keyFile also says until when tokens of the old key live")
  func plainChange() throws {
    let rotation = try Rotation()
    let write = { (file: String) in
      try rotation.ground.directory.write(
        """
        { musickit: { teamID: '\(Ground.teamID)', keyFile: '\(file)' }, catalog: { enabled: false },
          access: { anonymous: { token: true } } }
        """, to: "config.json5")
    }
    let settings = ["SERVER_PORT": "0", "ADMIN_PORT": "0", "MUSICKIT_CONFIG": try write(rotation.ground.keyFile)]
    let server = try RunningServer([], environment: settings)
    #expect(try server.keyID() == Ground.keyID)
    let proof = "musickit_signing_key_last_proof_timestamp_seconds"
    let start = try #require(try MetricsPage(of: server)[proof, ["key": Ground.keyID]])
    var now = 0
    try eventually("the second after the start") {
      now = try #require(Int(run("date", ["+%s"]).stdout.dropLast()))
      return now > Int(start)
    }
    _ = try write(rotation.nextFile)
    server.process.signal(1)
    try server.process.waitForErrors("Configuration reloaded")
    #expect(try server.keyID() == Rotation.nextID)
    let name = "musickit_signing_key_tokens_expire_timestamp_seconds"
    let page = try MetricsPage(of: server)
    #expect(try #require(page[name, ["key": Ground.keyID]]) >= Double(now + 86_400))
    #expect(try #require(page[proof, ["key": Rotation.nextID]]) >= Double(now))
    #expect(try server.state(Ground.keyID, "retired") == 1)
    #expect(server.stop() == 0)
  }

  @Test("waits for its notBefore, and the operator's last step keeps its tokens")
  func steps() throws {
    let rotation = try Rotation()
    let emulator = try Emulator(rotation.ground, ["--key-file", rotation.nextFile])
    let server = try rotation.serve(rotation.keys("state: 'next', notBefore: '9999-01-01T00:00:00Z'"), emulator)
    try server.process.waitForErrors("Next signing key proved")
    #expect(try server.keyID() == Ground.keyID)
    #expect(try server.rotationCheck() == "ok")
    #expect(try server.state(Rotation.nextID, "proved") == 1)
    try rotation.reload(server, rotation.keys())
    try server.process.waitForErrors("Signing key promoted")
    let token = try server.request("/token").token
    let done = "[{ id: '\(Ground.keyID)', state: 'retired' }, { file: '\(rotation.nextFile)', state: 'active' }]"
    _ = try rotation.write(done)
    server.process.signal(1)
    try server.process.waitForErrors("Configuration reloaded", count: 2)
    #expect(try server.request("/token").token == token)
    #expect(try server.rotationCheck() == nil)
    #expect(try server.state(Ground.keyID, "retired") == 1)
    #expect(server.stop() == 0)
  }

  @Test("never signs without an upstream, because nothing proves it, until the operator makes it the active one")
  func withoutUpstream() throws {
    let rotation = try Rotation()
    let server = try rotation.serve(rotation.keys("state: 'next', notBefore: '2025-01-01T00:00:00Z'"), nil)
    try server.process.waitForErrors("musickit.keys[1] has the state \\\"next\\\", and catalog.enabled is false")
    #expect(try server.state(Rotation.nextID, "unproved") == 1)
    #expect(try server.rotationDetail()?.contains("It signs only with state: \"active\"") == true)
    // A reload with the same keys asks for no proof either.
    try rotation.reload(server, rotation.keys())
    #expect(try server.state(Rotation.nextID, "unproved") == 1)
    #expect(try server.keyID() == Ground.keyID)
    _ = try rotation.write(
      "[{ id: '\(Ground.keyID)', state: 'retired' }, { file: '\(rotation.nextFile)', state: 'active' }]")
    server.process.signal(1)
    try server.process.waitForErrors("Configuration reloaded", count: 2)
    #expect(try server.keyID() == Rotation.nextID)
    #expect(server.stop() == 0)
    #expect(server.line("Signing key promoted") == nil && server.line("Next signing key proved") == nil)
  }

  @Test("must be another key than the active one")
  func sameKey() throws {
    let rotation = try Rotation()
    let copy = try rotation.ground.directory.write(rotation.ground.key.pem, to: "AuthKey_\(Rotation.nextID).p8")
    let result = try rotation.ground.run(
      ["check-config"],
      [
        "MUSICKIT_KEY_FILE": "",
        "MUSICKIT_KEYS":
          "[{ file: '\(rotation.ground.keyFile)', state: 'active' }, { file: '\(copy)', state: 'next' }]",
      ])
    #expect(result.status == 78)
    #expect(result.stderr.contains("musickit.keys[1]: is the active key under another ID;"))
  }
}
