import JSON
import TestSupport
import Testing

@Suite("A rate limit")
struct AccessRateTests {
  private static func client(_ rate: String) throws -> String {
    "{ id: \"slow\", apiKey: { sha256: \"\(try AccessGround.sha256("slow-key"))\" }, catalog: true, rateLimit: \(rate) }"
  }

  @Test("allows a burst, then refuses with Retry-After, and appears in every response")
  func burst() throws {
    let ground = try AccessGround(try Self.client("{ perSecond: 0.01, burst: 3 }"))
    var remaining: [String?] = []
    for target in ["/token", AccessGround.album, "/token?bogus=1"] {
      let response = try ground.request(target, key: "slow-key")
      #expect(response.status != 429)
      #expect(response["RateLimit-Policy"]?.contains("q=3") == true)
      remaining.append(response["RateLimit"])
    }
    #expect(remaining.map { $0?.contains("r=2") } == [true, false, false])
    #expect(remaining.map { $0?.contains("r=0") } == [false, false, true])
    for target in ["/token", AccessGround.album] {
      let response = try ground.request(target, key: "slow-key")
      #expect(response.status == 429)
      #expect(response.errorCode == "rate_limited")
      let wait = try #require(response["Retry-After"].flatMap { Int($0) })
      #expect((1...100).contains(wait))
      #expect(try #require(response.errorDetail).contains("\(wait) s"))
      #expect(response["RateLimit"]?.contains("r=0") == true)
    }
    // Other clients and open routes have no limit.
    #expect(try ground.request("/token").status == 200)
    #expect(try ground.request("/token")["RateLimit"] == nil)
    #expect(try ground.request("/healthz", key: "slow-key").status == 200)
    ground.server.stop()
    #expect(ground.auditLines.filter { $0.outcome == "limited" }.map(\.reason) == ["caller_rate", "caller_rate"])
  }

  @Test("does not appear in catalog responses that every caller may have, because shared caches may store them")
  func shared() throws {
    let ground = try CatalogGround([
      "ACCESS_ANONYMOUS": "{ token: true, catalog: true, rateLimit: { perSecond: 0.01, burst: 2 } }"
    ])
    let responses = try [AccessGround.album, "/token", AccessGround.album].map { try ground.server.request($0) }
    #expect(responses.map(\.status) == [200, 200, 429])
    #expect(responses[0]["Cache-Control"]?.contains("private") == false)
    #expect(responses.map { $0["RateLimit"] != nil } == [false, true, true])
    #expect(responses.map { $0["RateLimit-Policy"] != nil } == [false, true, true])
  }

  @Test("can apply to all callers of a client together")
  func total() throws {
    let ground = try AccessGround(
      try Self.client("{ perSecond: 100, burst: 100, total: { perSecond: 0.01, burst: 2 } }"))
    #expect(try ground.request("/token", key: "slow-key").status == 200)
    #expect(try ground.request("/token", key: "slow-key").status == 200)
    let response = try ground.request("/token", key: "slow-key")
    #expect(response.status == 429)
    #expect(try #require(response.errorDetail).contains("All callers of client slow together"))
  }

  @Test("counts each address separately", arguments: [("127.0.0.1", "127.0.0.2")])
  func addresses(_ one: String, _ other: String) throws {
    let ground = try AccessGround(try Self.client("{ perSecond: 0.01, burst: 1 }"))
    func status(_ address: String) throws -> Int {
      try ground.request("/token", key: "slow-key", "--interface", address).status
    }
    #expect(try status(one) == 200)
    #expect(try status(one) == 429)
    #expect(try status(other) == 200)
    #expect(try status(other) == 429)
  }

  @Test("counts the addresses of one IPv6 network of /64 together, and those of the next one apart")
  func network() throws {
    let ground = try AccessGround(
      try Self.client("{ perSecond: 0.01, burst: 1 }"), ["SERVER_TRUSTED_PROXIES": "['127.0.0.1']"])
    func status(_ address: String) throws -> Int {
      try ground.request("/token", key: "slow-key", "-H", "X-Forwarded-For: \(address)").status
    }
    #expect(try status("2001:db8:0:1::1") == 200)
    #expect(try status("2001:db8:0:1:ffff:ffff:ffff:ffff") == 429)
    #expect(try status("2001:db8:0:2::1") == 200)
    // An address of IPv4 stands for itself, however IPv6 spells it.
    #expect(try status("192.0.2.1") == 200)
    #expect(try status("::ffff:192.0.2.1") == 429)
    #expect(try status("192.0.2.2") == 200)
  }

  @Test("of failed attempts slows guesses of an API key, but not a right one, so a short key causes a warning once")
  func weakKey() throws {
    let digests = try ["tr0ub4dor", String(repeating: "k", count: 22)].map { try AccessGround.sha256($0) }
    let ground = try AccessGround("{ id: 'weak', apiKey: [{ sha256: '\(digests[0])' }, { sha256: '\(digests[1])' }] }")
    #expect(try Self.statuses((0..<150).map { "guess\($0)" }, at: ground).contains(429))
    #expect(try ground.request("/token", key: String(repeating: "k", count: 22)).status == 200)
    #expect(!ground.server.log.contains("has fewer than 22 characters"))
    for _ in 0..<2 { #expect(try ground.request("/token", key: "tr0ub4dor").status == 200) }
    ground.server.stop()
    let messages = ground.server.logLines.compactMap { $0?["message"]?.string }
    #expect(messages.count { $0.contains("An API key of client weak has fewer than 22 characters") } == 1)
    #expect(!ground.server.log.contains("tr0ub4dor"))
  }

  @Test("keeps its state across a reload")
  func reload() throws {
    let ground = try Ground()
    let file = try ground.directory.write(
      "{ access: { clients: [\(try Self.client("{ perSecond: 0.01, burst: 1 }"))] } }", to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file, "ACCESS_ANONYMOUS": "", "CATALOG_ENABLED": "true"])
    let credential = ["-H", "X-API-Key: slow-key", "\(server.url)/token"]
    #expect(try ParsedResponse(curl: credential).status == 200)
    server.process.signal(1)
    try server.process.waitForErrors("Configuration reloaded")
    #expect(try ParsedResponse(curl: credential).status == 429)
  }

  @Test("for failed attempts slows wrong keys and no valid key")
  func failures() throws {
    let ground = try AccessGround()
    let began = ContinuousClock.now
    let wrong = Array(repeating: "wrong", count: 150)
    let statuses = try Self.statuses(wrong + [AccessGround.android] + wrong, at: ground)
    // One more attempt for each second.
    let attempts = 100 + Int((ContinuousClock.now - began).components.seconds) + 1
    #expect((100...attempts).contains(statuses.count { $0 == 401 }))
    #expect(statuses[..<150].contains(429))
    // The same address, immediately afterwards.
    #expect(statuses[150] == 200)
    #expect(statuses[151...].contains(429))
    #expect(try ground.request("/token", key: nil).status == 401)
  }

  /// Sends a request with each key over one connection, so that little time passes, and returns the statuses.
  private static func statuses(_ keys: [String], at ground: AccessGround) throws -> [Int] {
    let connection = try ground.server.connect()
    connection.send(keys.map { "GET /token HTTP/1.1\r\nHost: x\r\nX-API-Key: \($0)\r\n\r\n" }.joined())
    connection.finishSending()
    return try connection.receiveAll().split(separator: "HTTP/1.1 ").map { response in
      let status = try #require(Int(response.prefix(3)))
      #expect((status == 429) == response.contains("\"code\":\"rate_limited\""))
      return status
    }
  }
}
