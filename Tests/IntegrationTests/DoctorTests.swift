import Glibc
import JSON
import TestSupport
import Testing

@Suite("doctor")
struct DoctorTests {
  private static let local = ["settings", "access", "key", "key-files", "token"]

  @Test("finds nothing wrong with a server whose tokens Apple Music accepts")
  func healthy() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, isSecure: true)
    let report = try DoctorReport(ground, emulator.settings)
    #expect(report.status == 0, "\(report.text)")
    #expect(
      report.passed == [
        "settings", "access", "key", "key-files", "token", "listeners", "dns", "tcp", "tls", "clock", "apple-music",
      ])
    #expect(report.failed.isEmpty && report.skipped.count == 4)
    #expect(report.warnings.isEmpty && !report.text.contains("\u{1B}"))
    #expect(try emulator.allRequests().map(\.path) == ["/v1/test"])
  }

  @Test("prints JSON for programs")
  func json() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    for (settings, isHealthy) in [(emulator.settings, true), (["CATALOG_UPSTREAM": "http://127.0.0.1:1"], false)] {
      let result = try ground.run(["doctor", "--json"], settings)
      let json = try #require(JSONReader.read(Array(result.stdout.utf8)))
      #expect(json["healthy"] == .bool(isHealthy))
      guard case .array(let checks)? = json["checks"] else { throw TestFailure(result.stdout) }
      #expect(checks.compactMap { $0["check"]?.string } == DoctorReport.all)
      let tcp = try #require(checks.first { $0["check"]?.string == "tcp" })
      #expect(tcp["verdict"]?.string == (isHealthy ? "pass" : "fail"))
      #expect((tcp["fix"] == nil) == isHealthy)
    }
  }

  @Test("uses colours only on a terminal, and none with NO_COLOR", arguments: [false, true])
  func colour(_ isRefused: Bool) throws {
    let ground = try Ground()
    let own = ["CATALOG_ENABLED": "false"].merging(isRefused ? ["NO_COLOR": "1"] : [:]) { $1 }
    let result = try withExtendedLifetime(ground) {
      try run(
        Repository.python,
        [Repository.script("with_terminal.py"), "/bin/sh", "-c", "exec \"$0\" doctor >&2", Program.path],
        environment: ground.settings.merging(own) { $1 })
    }
    #expect(result.stderr.contains("✓"), "\(result.stdout)\(result.stderr)")
    #expect(result.stderr.contains("\u{1B}[32m✓") == !isRefused)
  }

  // MARK: Settings, key, token, origin

  @Test("reports all errors in the settings with their paths, and ends with status 78")
  func settings() throws {
    let report = try DoctorReport(
      try Ground(),
      ["TOKEN_TTL": "1y", "SERVER_PORT": "x", "AUDIT_FILE": "/nonexistent/a", "CATALOG_ENABLED": "false"])
    #expect(report.status == 78)
    for path in ["token.ttl", "server.port", "audit.file"] { #expect(report.text.contains(path), "\(report.text)") }
    #expect(report.failed == ["settings"] && report.passed == ["access", "key", "key-files"])
    let misspelt = try DoctorReport(try Ground(), ["CATALOG_ENABLED": "false"], ["--set", "foo=x"])
    #expect(misspelt.failed == ["settings"] && misspelt.passed.contains("token"), "\(misspelt.text)")
    let file = try Ground().directory.write("{ nonsense", to: "config.json5")
    let unreadable = try DoctorReport(try Ground(), ["MUSICKIT_CONFIG": file])
    #expect(unreadable.status == 78 && unreadable.failed == ["settings"] && unreadable.passed.isEmpty)
  }

  @Test("judges everything else if no caller has access, and reports that as one failed check")
  func missingAccess() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let report = try DoctorReport(
      ground, emulator.settings.merging(["ACCESS_ANONYMOUS": ""]) { $1 }, ["--origin", "https://a.example"])
    #expect(report.status == 78 && report.failed == ["access"], "\(report.text)")
    #expect(report.passed.last == "apple-music" && report.lines(of: "access").contains("no client has access"))
    #expect(report.lines(of: "origin").contains("It depends on access."))
  }

  @Test("names a key that is unusable")
  func key() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    func report(_ setting: String, _ value: String) throws -> DoctorReport {
      try DoctorReport(ground, emulator.settings.merging([setting: value]) { $1 })
    }
    let missing = try report("MUSICKIT_KEY_FILE", "/nonexistent/AuthKey_ABC1234567.p8")
    missing.expectFailure("key", "musickit.keyFile", "/nonexistent/AuthKey_ABC1234567.p8")
    // The way to Apple Music does not depend on the key.
    #expect(missing.passed.suffix(3) == ["dns", "tcp", "clock"], "\(missing.text)")
    #expect(missing.lines(of: "apple-music").contains("It depends on token."))
    try report("MUSICKIT_KEY_ID", "XYZ1234567").expectFailure("key", "XYZ1234567", Ground.keyID)
    try report("MUSICKIT_TEAM_ID", Ground.keyID).expectFailure("key", "musickit.teamID")
    let file = try ground.directory.write(ground.key.publicPEM, to: "AuthKey_PUB1234567.p8")
    try report("MUSICKIT_KEY_FILE", file).expectFailure("key", "public key")
  }

  @Test("names the next key of a rotation, if only that one is unusable or refused")
  func nextKey() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    func report(_ next: String) throws -> DoctorReport {
      let keys = "[{ file: '\(ground.keyFile)', state: 'active' }, { file: '\(next)', state: 'next' }]"
      return try DoctorReport(
        ground, emulator.settings.merging(["MUSICKIT_KEYS": keys, "MUSICKIT_KEY_FILE": ""]) { $1 })
    }
    try report("/nonexistent/AuthKey_DEF1234567.p8").expectFailure("key", "musickit.keys[1]")
    let refused = try report(ground.directory.write(try KeyPair().pem, to: "AuthKey_DEF1234567.p8"))
    refused.expectFailure("next-key", "401", "DEF1234567")
    #expect(refused.passed.contains("apple-music"))
  }

  @Test("says what the next key depends on, if there is no token of it")
  func nextKeyWithoutToken() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let next = try ground.directory.write(try KeyPair().pem, to: "AuthKey_DEF1234567.p8")
    let keys = "[{ file: '\(ground.keyFile)', state: 'active' }, { file: '\(next)', state: 'next' }]"
    let settings = ["MUSICKIT_KEYS": keys, "MUSICKIT_KEY_FILE": "", "TOKEN_TTL": "1s"]
    let report = try DoctorReport(ground, emulator.settings.merging(settings) { $1 })
    #expect(report.status == 78 && report.failed == ["settings"], "\(report.text)")
    for name in ["token", "next-key"] {
      #expect(report.lines(of: name).contains("It depends on settings."), "\(report.text)")
    }
  }

  @Test("checks the next key also if Apple Music refuses the active one", arguments: [false, true])
  func refusedActiveKey(_ isNextRefused: Bool) throws {
    let (ground, other) = (try Ground(), try Ground())
    let next = try ground.directory.write(try KeyPair().pem, to: "AuthKey_DEF1234567.p8")
    let emulator = try Emulator(other, isNextRefused ? [] : ["--key-file", next])
    let keys = "[{ file: '\(ground.keyFile)', state: 'active' }, { file: '\(next)', state: 'next' }]"
    let settings = emulator.settings.merging(["MUSICKIT_KEYS": keys, "MUSICKIT_KEY_FILE": ""]) { $1 }
    let report = try DoctorReport(ground, settings, ["--user-token", "sandbox-user-token"])
    #expect(report.status == 1 && report.failed == ["apple-music"] + (isNextRefused ? ["next-key"] : []))
    #expect(report.passed.contains("next-key") == !isNextRefused, "\(report.text)")
    #expect(report.text.contains("– user-token   It depends on apple-music."), "\(report.text)")
  }

  @Test("blames no key of a rotation for a wrong clock")
  func clockOfRotation() throws {
    let ground = try Ground()
    let next = try ground.directory.write(try KeyPair().pem, to: "AuthKey_DEF1234567.p8")
    let emulator = try Emulator(ground, ["--key-file", next, "--clock-skew=-400"])
    let keys = "[{ file: '\(ground.keyFile)', state: 'active' }, { file: '\(next)', state: 'next' }]"
    let report = try DoctorReport(
      ground, emulator.settings.merging(["MUSICKIT_KEYS": keys, "MUSICKIT_KEY_FILE": ""]) { $1 })
    report.expectFailure("clock", "s ahead", "NTP")
    #expect(report.text.split(separator: "\n").count { $0.contains("which the wrong clock explains") } == 2)
  }

  @Test("says which clients may use an origin, and whether any may")
  func origin() throws {
    let ground = try Ground()
    let settings = [
      "CATALOG_ENABLED": "false",
      "ACCESS_CLIENTS":
        "[{ id: 'web', origins: ['https://a.example'] }, { id: 'studio', origins: ['https://b.example'] }]",
    ]
    let good = try DoctorReport(ground, settings, ["--origin", "https://a.example"])
    #expect(good.status == 0 && good.passed == Self.local + ["origin", "listeners"], "\(good.text)")
    #expect(good.text.contains("for the clients: web."))
    try DoctorReport(ground, settings, ["--origin", "https://c.example"]).expectFailure(
      "origin", "https://c.example", "CORS")
    try DoctorReport(ground, settings, ["--origin", "https://a.example/page"]).expectFailure("origin", "/page")
  }

  @Test("does not blame the network for an origin, nor Apple Music for a disabled catalog")
  func independent() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let report = try DoctorReport(ground, emulator.settings, ["--origin", "https://c.example"])
    #expect(report.status == 1 && report.failed == ["origin"])
    #expect(report.passed.contains("apple-music"), "\(report.text)")
    let disabled = try DoctorReport(ground, ["CATALOG_ENABLED": "false"])
    #expect(disabled.status == 0 && disabled.passed == Self.local + ["listeners"])
    #expect(disabled.text.contains("catalog.enabled is false"))
  }

  // MARK: The connection

  @Test("names the stage at which a connection fails")
  func connection() throws {
    let ground = try Ground()
    try DoctorReport(ground, ["CATALOG_UPSTREAM": "https://nothing.invalid", "CATALOG_TIMEOUTS_CONNECT": "2s"])
      .expectFailure("dns", "nothing.invalid", "catalog.upstream")
    let emulator = try Emulator(ground)
    let port = try #require(emulator.url.split(separator: ":").last)
    emulator.stop()
    try DoctorReport(ground, ["CATALOG_UPSTREAM": "https://127.0.0.1:\(port)"])
      .expectFailure("tcp", "127.0.0.1:\(port)", "firewall")
  }

  @Test(
    "names the proxy that refuses a tunnel, and not its password",
    arguments: [("403", "refuses a tunnel"), ("407", "refuses the proxy credentials in its URL")])
  func proxy(_ status: String, _ words: String) throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, isSecure: true)
    let proxy = try RunningServer(
      Repository.python, [Repository.script("connect_proxy.py"), status], environment: [:], hasAdmin: false)
    let own = ["HTTPS_PROXY": "http://user:geheim@127.0.0.1:\(proxy.port)"]
    let report = try DoctorReport(ground, emulator.settings.merging(own) { $1 })
    report.expectFailure("proxy", words, status)
    #expect(report.passed.contains("tcp") && !report.text.contains("geheim"))
    #expect(report.text.contains("http://user:password@…") == (status == "407"), "\(report.text)")
    guard status == "407" else { return }
    let bare = ["HTTPS_PROXY": "http://127.0.0.1:\(proxy.port)"]
    try DoctorReport(ground, emulator.settings.merging(bare) { $1 })
      .expectFailure("proxy", "needs proxy credentials (407), and its URL has none", "http://user:password@…")
  }

  @Test("tells a proxy that works, has no name or does not run from the upstream")
  func otherProxy() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, isSecure: true)
    let proxy = try RunningServer(
      Repository.python, [Repository.script("connect_proxy.py")], environment: [:], hasAdmin: false)
    let own = { emulator.settings.merging(["HTTPS_PROXY": $0]) { $1 } }
    let good = try DoctorReport(ground, own("http://127.0.0.1:\(proxy.port)"))
    #expect(good.status == 0 && good.passed.contains("proxy"), "\(good.text)")
    try DoctorReport(ground, own("http://proxy.invalid:3128")).expectFailure("dns", "proxy.invalid", "URL of the proxy")
    proxy.stop(SIGKILL)
    try DoctorReport(ground, own("http://127.0.0.1:\(proxy.port)")).expectFailure("tcp", "127.0.0.1", "HTTPS_PROXY")
  }

  @Test("names the certificate: self-signed, of another host, expired, or of an unknown issuer")
  func certificate() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, isSecure: true)
    try DoctorReport(ground, ["CATALOG_UPSTREAM": emulator.url]).expectFailure("tls", "self-signed", "decrypts TLS")
    let wrong = try Emulator(ground, ["--wrong-certificate"], isSecure: true)
    try DoctorReport(ground, wrong.settings).expectFailure("tls", "has a certificate for")

    let authority = try Certificate("Snooping Appliance", key: KeyPair(), isAuthority: true)
    for (certificate, words) in [
      (try Certificate(key: KeyPair(), issuer: authority), "Snooping Appliance"),
      (try Certificate(key: KeyPair(), notBefore: -7200, notAfter: -3600), "expired"),
    ] {
      // Another server of this program has any certificate that the test wants.
      let file = try ground.directory.write(certificate.pem, to: "leaf.crt")
      let key = try ground.directory.write(certificate.key.pem, to: "leaf.key")
      let server = try ground.serve(["SERVER_TLS_CERTIFICATE_FILE": file, "SERVER_TLS_KEY_FILE": key])
      let trust = words == "expired" ? ["CATALOG_CA_FILE": file] : [:]
      try DoctorReport(ground, ["CATALOG_UPSTREAM": server.url].merging(trust) { $1 }).expectFailure("tls", words)
    }
  }

  @Test("names TLS if the handshake hangs, and not the certificate")
  func silentHandshake() throws {
    let ground = try Ground()
    let upstream = try ground.serve()
    // The system still accepts connections for it.
    upstream.process.signal(SIGSTOP)
    let settings = [
      "CATALOG_UPSTREAM": upstream.url.replacing("http:", with: "https:"), "CATALOG_TIMEOUTS_CONNECT": "1s",
    ]
    let report = try DoctorReport(ground, settings)
    report.expectFailure("tls", "did not finish the TLS handshake in time", "TCP works, and TLS gets no response")
    #expect(report.passed.contains("tcp") && !report.text.contains("decrypts TLS"))
  }

  @Test("names a peer that does not speak TLS, or ends the connection before a response")
  func silence() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, ["--fault", "reset"])
    let secure = emulator.url.replacing("http:", with: "https:")
    try DoctorReport(ground, ["CATALOG_UPSTREAM": secure]).expectFailure("tls", "does not speak TLS")
    let slow = try Emulator(ground, ["--fault", "delay=20s"])
    let report = try DoctorReport(ground, slow.settings.merging(["CATALOG_TIMEOUTS_FIRST_BYTE": "1s"]) { $1 })
    report.expectFailure("apple-music", "not the cause")
  }

  // MARK: Apple Music

  @Test("names the clock, and neither key nor token", arguments: [(-400, "ahead"), (4000, "behind")])
  func clock(_ skew: Int, _ words: String) throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, ["--clock-skew=\(skew)"])
    let report = try DoctorReport(ground, emulator.settings)
    report.expectFailure("clock", "s \(words)", "NTP")
    #expect(report.skipped.contains("apple-music"))
    #expect(report.text.contains("which the wrong clock explains"))
  }

  @Test("names the clock even if Apple Music still accepts the token")
  func toleratedClock() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, ["--clock-skew=400"])
    let report = try DoctorReport(ground, emulator.settings)
    #expect(report.status == 1 && report.failed == ["clock"], "\(report.text)")
    #expect(report.passed.last == "apple-music")
  }

  @Test("names key, key ID and team if the clock is right and Apple Music refuses the token", arguments: [false, true])
  func refused(_ hasOtherKey: Bool) throws {
    let ground = try Ground()
    let emulator = try Emulator(hasOtherKey ? try Ground() : ground, hasOtherKey ? [] : ["--team-id", "OTHERTEAM1"])
    let report = try DoctorReport(ground, emulator.settings)
    report.expectFailure("apple-music", "401", "key ID \(Ground.keyID) and team ID \(Ground.teamID)")
    #expect(report.passed.contains("clock"))
  }

  @Test(
    "does not blame the token for a used-up quota or a failure of Apple",
    arguments: [("rate-limit", "quota is the team's"), ("status=503", "status 503")])
  func trouble(_ fault: String, _ words: String) throws {
    let ground = try Ground()
    let emulator = try Emulator(ground, ["--fault", fault])
    let report = try DoctorReport(ground, emulator.settings)
    report.expectFailure("apple-music", words, "says nothing about the tokens")
    #expect(report.passed.contains("clock"))
  }

  // MARK: The user

  @Test("tells a valid user token from one that is refused, and from a user without a subscription")
  func user() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let file = try ground.directory.write("sandbox-user-token\n", to: "user")
    for arguments in [["--user-token-file", file], ["--user-token", "sandbox-user-token"]] {
      let good = try DoctorReport(ground, emulator.settings, arguments)
      #expect(good.status == 0 && good.passed.last == "user-token", "\(good.text)")
    }
    for (token, words) in [
      ("sandbox-user-token-without-subscription", ["40015", "needs a subscription"]),
      ("made-up-user-token", ["unauthorize() and then authorize()", "request a new one from MusicKit"]),
    ] {
      let report = try DoctorReport(ground, emulator.settings, ["--user-token-file", "-"], input: token)
      for words in words { report.expectFailure("user-token", words) }
      #expect(report.passed.contains("apple-music") && !report.text.contains(token))
    }
  }

  @Test("blames the user's token for no failure of Apple")
  func userTrouble() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    for (fault, words) in [("rate-limit", "429"), ("status=500", "status 500")] {
      try emulator.fail(fault, path: "/v1/me/")
      try DoctorReport(ground, emulator.settings, ["--user-token", "sandbox-user-token"])
        .expectFailure("user-token", words, "says nothing about the tokens")
    }
  }

  @Test("accepts a user token as long as a key, and refuses a private key in its place")
  func longUserToken() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let long = String(repeating: "Au0abc+/", count: 40) + "=="
    for arguments in [["--user-token", long], ["--user-token=\(long)"]] {
      try DoctorReport(ground, emulator.settings, arguments).expectFailure("user-token", "refuses the music user token")
    }
    let inContainer = try ground.run(["--container", "doctor", "--user-token", long], emulator.settings)
    #expect(inContainer.status == 1 && inContainer.stdout.contains("refuses the music user token"))
    for arguments in [["--user-token", ground.key.pem], ["--user-token-file", ground.keyFile]] {
      let result = try ground.run(["doctor"] + arguments, emulator.settings)
      #expect(result.status == 64 && result.stdout.isEmpty)
      #expect(try !SecrecyTests.leaks(ground.key.pem, in: result.stderr))
    }
  }

  @Test("ends with status 64 for a user token that is unreadable or none, or given twice")
  func usage() throws {
    let ground = try Ground()
    let empty = try ground.directory.write("\n", to: "empty")
    for arguments in [
      ["--user-token-file", "/nonexistent"], ["--user-token-file", empty], ["--user-token", "a b"],
      ["--user-token", "a", "--user-token-file", empty], ["--json", "--user-token", "a b"], ["--json", "--nonsense"],
    ] {
      let result = try ground.run(["doctor"] + arguments)
      #expect(result.status == 64 && result.stdout.isEmpty && !result.stderr.isEmpty, "\(result.stderr)")
    }
  }
}
