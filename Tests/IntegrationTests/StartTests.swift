import JSON
import TestSupport
import Testing

@Suite("A server")
struct StartTests {
  @Test("starts with three settings from the environment")
  func environmentOnly() throws {
    let ground = try Ground()
    // Another test or program may use the default ports, so flags choose free ports.
    let server = try RunningServer(["--port", "0", "--set", "admin.port=0"], environment: ground.required)
    #expect(try server.request("/token").status == 200)
    #expect(server.stop() == 0)
  }

  @Test("listens on the port of the variable PORT if there is no other, and says so")
  func platformPort() throws {
    let ground = try Ground()
    let environment = ground.required.merging(["PORT": "0"]) { $1 }
    let server = try RunningServer(["--set", "admin.port=0"], environment: environment)
    #expect(try server.request("/token").status == 200)
    let note = "The port is that of the variable PORT, because server.port is not set."
    #expect(try server.process.line() == note)
    #expect(server.stop() == 0)
    let check = try Program.run(["check-config"], environment: ground.required.merging(["PORT": "9090"]) { $1 })
    #expect(check.stdout.contains("http on 127.0.0.1 port 9090 (PORT), admin"), "\(check.stdout)")
    let both = try Program.run(["check-config", "--port", "1"], environment: environment)
    #expect(both.stdout.contains("http on 127.0.0.1 port 1, admin"), "\(both.stdout)")
  }

  @Test("without any setting names the demo and the flag for a file; with some, only what is missing")
  func nothing() throws {
    let hint = "To try the server without a key and settings: musickit-token-server demo."
    // An image sets the hosts.
    for environment in [[:], ["SERVER_HOST": "*", "ADMIN_HOST": "*"]] {
      let result = try Program.run([], environment: environment)
      #expect(result.status == 78)
      #expect(result.stderr.split(separator: "\n").last?.hasPrefix(hint) == true, "\(result.stderr)")
    }
    #expect(try !Program.run([], environment: ["MUSICKIT_TEAM_ID": "TEAM123456"]).stderr.contains("demo"))
  }

  @Test("that only gives out tokens says after its start whether Apple accepts its key, and asks once")
  func judgedKey() throws {
    let ground = try UpstreamGround()
    let other = try UpstreamGround()
    let (good, bad) = (try ground.sandbox(), try other.sandbox())
    let server = try ground.serve(good)
    let refused = try ground.serve(bad)
    try server.process.waitForErrors("Apple Music accepts tokens of the signing key.")
    try refused.process.waitForErrors("The command doctor, with the same settings, checks key, clock and network.")
    refused.stop()
    let errors = refused.logLines.compactMap { $0 }.filter { $0["level"]?.string == "error" }
    #expect(errors.count == 1 && errors.first?["key.id"]?.string == Ground.keyID, "\(refused.log)")
    #expect(errors.first?["message"]?.string?.contains("key, key ID and team ID do not belong together") == true)
    #expect(try (good.allRequestsSeen(), bad.allRequestsSeen()) == (1, 1))
  }

  @Test("is degraded while Apple refuses its key, until Apple accepts it, without a request of a caller")
  func judgedKeyIsShown() throws {
    let ground = try UpstreamGround()
    let port = UpstreamGround.fixedPort
    let bad = try ground.sandbox("--team-id", "OTHERTEAM1", port: port)
    let server = try ground.serve(bad)
    func appleMusic() throws -> String? {
      try server.admin("/readyz").json?["checks"]?["appleMusic"]?["status"]?.string
    }
    try eventually("the refusal is known") { try appleMusic() == "degraded" }
    #expect(try server.admin("/readyz").status == 200)
    #expect(try MetricsPage(of: server)["musickit_upstream_token_rejected"] == 1)
    bad.stop()
    let good = try ground.sandbox(port: port)
    try eventually("the acceptance is known") { try appleMusic() == "ok" }
    #expect(try MetricsPage(of: server)["musickit_upstream_token_rejected"] == 0)
    #expect(try good.allRequestsSeen() > 0)
  }

  @Test("starts with a configuration file only")
  func fileOnly() throws {
    let ground = try Ground()
    let file = try ground.directory.write(
      """
      // JSON5: comments, unquoted names and trailing commas.
      {
        musickit: { teamID: "\(Ground.teamID)", keyFile: "\(ground.keyFile)" },
        access: { anonymous: { token: true } },
        server: { port: 0, }, admin: { port: 0 },
      }
      """, to: "config.json5")
    #expect(try RunningServer(["serve", "--config", file], environment: [:]).request("/token").status == 200)
    #expect(try RunningServer([], environment: ["MUSICKIT_CONFIG": file]).request("/token").status == 200)
  }

  @Test("starts with flags only")
  func flagsOnly() throws {
    let ground = try Ground()
    let flags = ["musickit.teamID=\(Ground.teamID)", "musickit.keyFile=\(ground.keyFile)", "admin.port=0"]
    let server = try RunningServer(
      flags.flatMap { ["--set", $0] } + ["--port", "0", "--host", "127.0.0.1", "--unsafe-allow-anonymous"],
      environment: [:])
    #expect(try server.request("/token").status == 200)
  }

  @Test("prefers a flag to the environment, and the environment to the file")
  func precedence() throws {
    let ground = try Ground()
    let file = try ground.directory.write("{ token: { ttl: '1h', maxTTL: '2h', backdate: '1m' } }", to: "config.json5")
    let server = try ground.serve(
      ["MUSICKIT_CONFIG": file, "TOKEN_TTL": "3h", "TOKEN_MAX_TTL": "4h", "TOKEN_BACKDATE": "2m"],
      ["--set", "token.maxTTL=5h", "--set", "token.backdate=3m"])
    let token = try #require(try server.request("/token").json)
    let issuedAt = try #require(token["issuedAt"]?.integer)
    let expiresAt = try #require(token["expiresAt"]?.integer)
    #expect(expiresAt - issuedAt == 3 * 3600 + 180, "the environment's lifetime and the flag's backdate")
    #expect(try server.request("/token?ttl=18000").status == 200, "the flag's maximum")
    #expect(try server.request("/token?ttl=18001").status == 400, "the flag's maximum")
  }

  @Test("starts without an admin listener")
  func withoutAdmin() throws {
    let server = try Ground().serve(["ADMIN_ENABLED": "false"])
    #expect(server.adminURL == nil)
    #expect(try server.request("/readyz").status == 200)
  }

  @Test("serves with either poller, with one loop and with several loops", arguments: ["epoll", "poll"], [1, 3])
  func pollers(_ poller: String, _ loops: Int) throws {
    let server = try Ground().serve(["SERVER_POLLER": poller, "SERVER_LOOPS": "\(loops)"])
    for _ in 0..<8 {
      #expect(try server.request("/token", "\(server.url)/token", "\(server.url)/healthz").status == 200)
    }
    let threads = try run("grep", ["-l", "", "-r", "/proc/\(server.process.id)/task", "--include=comm"]).stdout
    #expect(threads.split(separator: "\n").count >= loops)
    #expect(server.stop() == 0)
  }

  @Test("starts as a demo on loopback only, and says that its key is temporary")
  func demo() throws {
    let server = try RunningServer(["demo", "--port", "0"], environment: [:])
    #expect(try server.request("/token", "-H", "Origin: http://localhost:5173").status == 200)
    #expect(try server.request("/token", "-H", "Origin: https://evil.example").errorCode == "origin_not_allowed")
    #expect(server.urls.allSatisfy { $0.hasPrefix("http://127.0.0.1:") || $0.hasPrefix("http://[::1]:") })
    #expect(server.stop() == 0)
    let output = String(decoding: server.process.standardOutput, as: UTF8.self)
    #expect(output.contains("deleted at the end"))
    #expect(output.contains("BEGIN PUBLIC KEY"))
    #expect(!output.contains("PRIVATE"))
  }
}
