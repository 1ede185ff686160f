import Glibc
import JSON
import TestSupport
import Testing

@Suite("Metrics that warn")
struct WarningMetricsTests {
  private static let day = 86_400.0

  private static func ready(_ check: String, _ status: String, on page: MetricsPage) -> Double? {
    page["musickit_readiness", ["check": check, "status": status]]
  }

  @Test("tell how long the tokens of callers and of the upstream are valid, and when the server signed the last one")
  func tokens() throws {
    let before = time(nil)
    let ground = try CatalogGround()
    var page = try MetricsPage(of: ground.server)
    let (caller, upstream) = (["use": "caller"], ["use": "upstream"])
    #expect(page["musickit_token_lifetime_seconds", caller] == 43_200, "a scrape mints the token")
    #expect((43_000...43_200).contains(try #require(page["musickit_token_remaining_seconds", caller])))
    #expect(page["musickit_token_remaining_seconds", upstream] == nil)
    #expect(page["musickit_token_failures_total", caller] == 0)
    #expect(page["musickit_token_failures_total", upstream] == 0)
    #expect(try ground.request(CatalogGround.album).status == 200)
    #expect(try ground.request("/token?ttl=60").status == 200)
    page = try MetricsPage(of: ground.server)
    #expect(page["musickit_token_lifetime_seconds", caller] == 43_200)
    #expect(page["musickit_token_lifetime_seconds", upstream] == 3600)
    #expect((3400...3600).contains(try #require(page["musickit_token_remaining_seconds", upstream])))
    for use in [caller, upstream] {
      let minted = try #require(page["musickit_token_minted_timestamp_seconds", use])
      #expect((Double(before)...Double(time(nil))).contains(minted))
    }
  }

  @Test("have the status of each check of readiness")
  func readiness() throws {
    let provider = try IdentityProvider()
    try provider.behave("hold")
    let server = try Ground().serve(["ACCESS_CLIENTS": "[\(provider.client())]"])
    try provider.waitUntilHolding()
    var page = try MetricsPage(of: server)
    let checks = Set(try #require(try server.admin("/readyz").json?["checks"]).names)
    #expect(page.values(of: "check") == checks)
    for check in checks {
      let isDegraded = check == "identityProviders"
      #expect(Self.ready(check, "ok", on: page) == (isDegraded ? 0 : 1), "\(check)")
      #expect(Self.ready(check, "degraded", on: page) == (isDegraded ? 1 : 0), "\(check)")
      #expect(Self.ready(check, "failed", on: page) == 0, "\(check)")
    }
    try provider.behave("ok")
    try provider.release()
    try eventually("the keys have come") { try server.request("/readyz").json?["status"]?.string == "ready" }
    page = try MetricsPage(of: server)
    #expect(Self.ready("identityProviders", "ok", on: page) == 1)
    #expect(Self.ready("identityProviders", "degraded", on: page) == 0)
  }

  @Test("tell when the certificates of client CAs, of the upstream and of its CAs end")
  func certificates() throws {
    let ground = try Ground()
    let (soon, late) = (
      try Certificate("Soon", key: KeyPair(), isAuthority: true, notAfter: 5 * 86_400),
      try Certificate("Late", key: KeyPair(), isAuthority: true, notAfter: 50 * 86_400)
    )
    let file = try ground.directory.write(late.pem + soon.pem, to: "client-ca.pem")
    let emulator = try Emulator(ground, isSecure: true)
    let settings = try ground.tlsSettings().merging(emulator.settings) { $1 }
    let own = ["SERVER_TLS_CLIENT_CA_FILE": file, "ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]
    let server = try ground.serve(settings.merging(own) { $1 })
    var page = try MetricsPage(of: server)
    let clientCA = try #require(page["musickit_tls_client_ca_remaining_seconds"])
    #expect((4.9 * Self.day...5 * Self.day).contains(clientCA))
    #expect(try #require(page["musickit_upstream_ca_remaining_seconds"]) > 0)
    #expect(page["musickit_upstream_certificate_remaining_seconds"] == nil, "there was no handshake")
    let options = ["--cacert", ground.certificateFile, "\(server.url)\(CatalogGround.album)"]
    #expect(try ParsedResponse(curl: options).status == 200)
    page = try MetricsPage(of: server)
    let upstream = try #require(page["musickit_upstream_certificate_remaining_seconds"])
    let authority = try #require(page["musickit_upstream_ca_remaining_seconds"])
    #expect(abs(upstream - authority) <= 60, "the emulator's certificate is its own CA")
    withExtendedLifetime(emulator) {}
  }

  @Test("count what the server lacked when it refused requests, from 0 on")
  func unavailable() throws {
    let provider = try IdentityProvider()
    try provider.behave("down")
    let token = try provider.mint()
    let ground = try CatalogGround(["ACCESS_CLIENTS": "[\(provider.client())]", "CATALOG_CACHE_MAX_BYTES": "0"])
    let metric = "musickit_unavailable_total"
    func count(_ cause: String) throws -> Double? { try MetricsPage(of: ground.server)[metric, ["cause": cause]] }
    let causes = try MetricsPage(of: ground.server).text.matches(of: /musickit_unavailable_total\{cause="(\w+)"\} 0\n/)
    #expect(causes.count == 11)
    let refused = try ground.request("/token", "-H", "Authorization: Bearer \(token)")
    #expect(refused.status == 503 && refused.errorCode == "overloaded")
    #expect(try count("provider_keys") == 1)
    try ground.emulator.fail("status=500")
    try eventually("the circuit refuses requests") {
      let response = try ground.request(CatalogGround.album)
      return response.status == 502 && response["Retry-After"] != nil
    }
    #expect(try count("circuit") == 1)
    #expect(try count("queue") == 0)
  }

  @Test("count refused connections among what the server lacked")
  func connections() throws {
    let server = try Ground().serve(["SERVER_LIMITS_CONNECTIONS_PER_ADDRESS": "1", "SERVER_LOOPS": "1"])
    let first = try server.connect()
    #expect(try server.connect().receiveAll().hasPrefix("HTTP/1.1 503 "))
    let page = try MetricsPage(of: server)
    #expect(page["musickit_unavailable_total", ["cause": "connections_per_address"]] == 1)
    #expect(page["musickit_unavailable_total", ["cause": "connections"]] == 0)
    withExtendedLifetime(first) {}
  }

  @Test("have the delays of each event loop")
  func loops() throws {
    let server = try Ground().serve(["SERVER_LOOPS": "2"])
    #expect(try server.request("/token").status == 200)
    let page = try MetricsPage(of: server)
    #expect(page.values(of: "loop") == ["0", "1"])
    for loop in ["0", "1"] {
      let lag = try #require(page["musickit_loop_lag_seconds", ["loop": loop]])
      #expect((0..<600).contains(lag))
      #expect(page["musickit_loop_late_turns_total", ["loop": loop]] != nil)
      #expect(try #require(page["musickit_loop_busy_seconds_total", ["loop": loop]]) > 0)
    }
  }

  @Test("have the time of the settings in use, and a series for each client before its first request")
  func settings() throws {
    let before = Double(time(nil))
    let ground = try Ground()
    let server = try ground.serve(["ACCESS_CLIENTS": "[{ id: 'web', origins: ['https://a.example'] }]"])
    var page = try MetricsPage(of: server)
    let decisions = ["client": "web", "outcome": "granted", "reason": "-"]
    #expect(page["musickit_access_decisions_total", decisions] == 0)
    #expect(try server.request("/token", "-H", "Origin: https://a.example").status == 200)
    page = try MetricsPage(of: server)
    #expect(page["musickit_access_decisions_total", decisions] == 1)
    let started = try #require(page["musickit_settings_timestamp_seconds"])
    #expect((before...Double(time(nil))).contains(started))
    try eventually("the clock shows another second") { Double(time(nil)) > started }
    // The key file is unchanged, so the reload succeeds.
    server.process.signal(SIGHUP)
    try eventually("the reload has ended") { try MetricsPage(of: server)["musickit_reloads_total"] == 1 }
    #expect(try #require(try MetricsPage(of: server)["musickit_settings_timestamp_seconds"]) > started)
  }
}
