import JSON
import TestSupport
import Testing

extension RedisServer {
  /// Writes a heartbeat, as another replica does.
  fileprivate func beat(_ key: String, _ text: String) throws {
    let script = "redis.call('ZADD', KEYS[1], redis.call('TIME')[1] * 1000 + 1000, ARGV[1])"
    try run("EVAL", script, "1", "{musickit}:\(key)", text)
  }
}

@Suite("Replicas that share a store")
struct ReplicaGroupTests {
  @Test("know their number, also after one has ended or was killed")
  func number() throws {
    let replicas = try Replicas(3)
    try eventually("their number is in the metrics") {
      let page = try MetricsPage(of: replicas.servers[0])
      return page["musickit_shared_replicas"] == 3 && page["musickit_shared_store_usable"] == 1
        && (page["musickit_shared_settlements_total"] ?? 0) > 0
    }
    replicas.servers[2].stop()
    try replicas.waitUntilTogether(2)
    replicas.servers[1].process.kill()
    try replicas.waitUntilTogether(1)
    // A store that a busy machine lets respond late counts as one in trouble for a moment.
    try eventually("the last one is ready") {
      try replicas.servers[0].request("/readyz").json?["status"]?.string == "ready"
    }
  }

  /// What may happen to a store, and how it ends.
  struct Trouble: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let begin: @Sendable (RedisServer) throws -> Void
    let end: @Sendable (RedisServer) throws -> Void
    let reason: String
  }

  static let troubles = [
    Trouble(
      testDescription: "stopped", begin: { $0.pause() }, end: { $0.resume() }, reason: "It"),
    Trouble(
      testDescription: "killed", begin: { $0.kill() }, end: { try $0.start() }, reason: "No connection to"),
    Trouble(
      testDescription: "a read-only replica", begin: { try $0.run("REPLICAOF", "127.0.0.1", "1") },
      end: { try $0.run("REPLICAOF", "NO", "ONE") }, reason: "It is a read-only replica."),
    Trouble(
      testDescription: "out of memory",
      begin: {
        try $0.run("CONFIG", "SET", "maxmemory", "1")
        try $0.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
      },
      end: { try $0.run("CONFIG", "SET", "maxmemory", "0") }, reason: "It refuses commands: OOM"),
  ]

  @Test("serve every request while the store is in trouble, and say why", arguments: troubles)
  func trouble(_ trouble: Trouble) throws {
    let replicas = try Replicas(2)
    let server = replicas.servers[0]
    try trouble.begin(replicas.store)
    try eventually("the reason in /readyz") {
      let check = try Replicas.check(server)
      return check.status == "degraded" && check.detail.hasPrefix("the store is of no use: \(trouble.reason)")
        && check.detail.hasSuffix("This replica keeps limits of its own, a part of 2")
    }
    #expect(try server.request("/readyz").status == 200)
    #expect(try server.request("/readyz").json?["status"]?.string == "degraded")
    for _ in 1...3 { #expect(try server.request("/token").status == 200) }
    #expect(try MetricsPage(of: server)["musickit_shared_store_usable"] == 0)
    try server.process.waitForErrors("The store unix://\(replicas.store.socket) is of no use.")
    try trouble.end(replicas.store)
    try replicas.waitUntilTogether()
    #expect(try server.request("/readyz").json?["status"]?.string == "ready")
  }

  @Test(
    "serve every request while the network loses all packets of the store, and find it when it no longer does",
    .enabled(if: LossyNetwork.obstacle == nil, Comment(rawValue: LossyNetwork.obstacle ?? "")))
  func loss() throws {
    let network = try LossyNetwork()
    let arguments = ["--port", "6379", "--bind", network.address, "--protected-mode", "no"]
    let store = try RedisServer(arguments, launcher: network.launcher)
    let replicas = try Replicas(
      2, store: store, ["SHARED_URL": "redis://\(network.address):6379", "SHARED_TIMEOUT": "1s"])
    let server = replicas.servers[0]
    let client = try server.connect()
    // The second time, the test waits until the connection has ended and another one did not come about.
    for reason in ["It", "No connection to"] {
      try network.losePackets()
      try eventually("the reason in /readyz") {
        client.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.response().status == 200)
        return try Replicas.check(server).detail.hasPrefix("the store is of no use: \(reason)")
      }
      try network.deliverPackets()
      try replicas.waitUntilTogether()
    }
    withExtendedLifetime(network) {}
  }

  @Test("start without the store, and find it when it comes")
  func lateStore() throws {
    let store = try RedisServer()
    store.kill()
    let ground = try Ground()
    let server = try ground.serve(["SHARED_URL": "unix://\(store.socket)"])
    #expect(try server.request("/token").status == 200)
    #expect(try Replicas.check(server).status == "degraded")
    try store.start()
    try eventually("a group of one") { try Replicas.check(server) == ("ok", "this is the only replica") }
  }

  @Test("that differ in the key, a rate or the version say so, until they are alike")
  func differences() throws {
    let store = try RedisServer()
    let replicas = try Replicas(2, store: store)
    let server = replicas.servers[0]
    func expect(_ part: String, _ words: String, while beat: () throws -> Void = {}) throws {
      try eventually("/readyz and the metrics say that another replica has \(words)") {
        try beat()
        let check = try Replicas.check(server)
        let page = try MetricsPage(of: server)
        return check.status == "degraded" && check.detail.contains("some have another \(words):")
          && ["key", "rates", "version"].allSatisfy {
            page["musickit_shared_replicas_differ", ["part": $0]] == ($0 == part ? 1 : 0)
          }
      }
    }
    let shared = ["SHARED_URL": "unix://\(store.socket)"]
    let other = try Ground().serve(shared)
    try expect("key", "signing key or team")
    try server.process.waitForErrors("Other replicas at the store have another signing key or team.")
    // The store says the same to all.
    try eventually("the other replica hears of it") { try Replicas.check(other).status == "degraded" }
    #expect(try server.request("/readyz").status == 200)
    other.stop()
    try replicas.waitUntilTogether()
    let rate = "{ token: true, rateLimit: { perSecond: 5, burst: 9 } }"
    let stricter = try replicas.ground.serve(shared.merging(["ACCESS_ANONYMOUS": rate]) { $1 })
    try expect("rates", "rateLimit of a client")
    stricter.stop()
    try replicas.waitUntilTogether()
    try server.process.waitForErrors("All replicas at the store have the same key, rates and version again.")
    let facts = try store.run("ZRANGE", "{musickit}:facts", "0", "-1").split(separator: " ").map(String.init)
    try #require(facts.count == 3)
    for text in ["9.9 \(facts[1]) \(facts[2]) more", "9.9", "", String(repeating: "x", count: 100_000)] {
      try expect("version", "version") { try store.beat("facts", text) }
      try replicas.waitUntilTogether()
    }
  }

  @Test("need no permission at the store but the documented ones")
  func permissions() throws {
    let document = try TextFile.read("\(Repository.path)/docs/scaling.md")
    let line = try #require(document.split(separator: "\n").first { $0.hasPrefix("ACL SETUSER musickit on >PASSWORD") })
    let store = try RedisServer()
    let rule = line.split(separator: " ").map { $0 == ">PASSWORD" ? ">secret" : String($0) }
    try store.run(arguments: rule)
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let rates = "rateLimit: { perSecond: 1000, burst: 1000, total: { perSecond: 1000, burst: 1000 }"
    let client =
      "{ id: 'web', apiKey: { sha256: '\(try AccessGround.sha256("k"))' }, catalog: true, \(rates), strict: true } }"
    let replicas = try Replicas(
      2, store: store, ground: ground,
      emulator.settings.merging([
        "SHARED_USER": "musickit", "SHARED_PASSWORD_FILE": try ground.directory.write("secret", to: "password"),
        "SHARED_DATABASE": "1", "ACCESS_CLIENTS": "[\(client)]",
        "ACCESS_ANONYMOUS": "{ token: true, catalog: true, \(rates) } }",
      ]) { $1 })
    for server in replicas.servers {
      for credential in [[], ["-H", "X-API-Key: k"]] {
        for path in ["/token", CatalogGround.album, "/v1/catalog/us/songs/nothing"] {
          #expect(try ParsedResponse(curl: credential + ["\(server.url)\(path)"]).status != 503)
        }
      }
    }
    try eventually("both have settled the rates") {
      try replicas.servers.allSatisfy {
        try #require(try MetricsPage(of: $0)["musickit_shared_messages_total", ["kind": "rates"]]) > 0
      }
    }
    for server in replicas.servers {
      #expect(try MetricsPage(of: server)["musickit_shared_commands_refused_total"] == 0, "\(server.log)")
      #expect(server.stop() == 0)
    }
    #expect(try store.run("ACL", "LOG").isEmpty)
    let counts = try store.run("INFO", "commandstats").split(whereSeparator: \.isNewline).compactMap {
      $0.hasPrefix("cmdstat_") ? $0.dropFirst(8).prefix { $0 != ":" } : nil
    }
    let allowed = Set(rule.filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) })
    let unused = allowed.subtracting(counts.map(String.init))
    // These take two replicas that wait for the same response, and replicas that differ.
    #expect(unused.isSubset(of: ["append", "pttl", "zrange"]), "\(unused)")
  }

  @Test("do not count one of the future, which the store may have from before its clock was set back")
  func setBack() throws {
    let replicas = try Replicas(1)
    for (key, text) in [("members", "dead"), ("facts", "9.9")] {
      try replicas.store.run("ZADD", "{musickit}:\(key)", "+inf", text)
      try eventually("one of the future is gone") {
        try replicas.store.run("ZRANGE", "{musickit}:\(key)", "0", "-1").split(separator: "\n").count == 1
      }
    }
    try replicas.waitUntilTogether()
  }

  @Test("of another prefix are another group")
  func prefixes() throws {
    let store = try RedisServer()
    let one = try Replicas(2, store: store, ["SHARED_KEY_PREFIX": "one"])
    let two = try Replicas(1, store: store, ["SHARED_KEY_PREFIX": "two"])
    try one.waitUntilTogether()
    #expect(try Replicas.check(two.servers[0]).detail == "this is the only replica")
    let keys = try store.run("KEYS", "*").split(separator: "\n")
    #expect(keys.allSatisfy { $0.hasPrefix("{one}:") || $0.hasPrefix("{two}:") })
  }

  @Test("survive values of other types at their keys, and messages of others on their channel")
  func foreignValues() throws {
    let store = try RedisServer()
    try store.run("SET", "{musickit}:members", "not a sorted set")
    let ground = try Ground()
    let server = try ground.serve(["SHARED_URL": "unix://\(store.socket)"])
    try eventually("the reason in /readyz") {
      try Replicas.check(server).detail.contains("It refuses commands: WRONGTYPE")
    }
    #expect(try server.request("/token").status == 200)
    try store.run("DEL", "{musickit}:members")
    try eventually("a group of one") { try Replicas.check(server) == ("ok", "this is the only replica") }
    for text in ["", "x", "\u{1}\u{1}", "\u{1}\u{1}12345678", "\u{2}\u{1}12345678\u{0}", "\u{3}\u{1}12345678abc"] {
      try store.run("PUBLISH", "{musickit}:events", text)
    }
    try store.run("PUBLISH", "{musickit}:events", String(repeating: "\u{1}", count: 100_000))
    try eventually("the messages are counted") {
      try #require(try MetricsPage(of: server)["musickit_shared_messages_invalid_total"]) >= 3
    }
    #expect(try server.request("/token").status == 200)
  }

  @Test("get along with replicas of a newer version: ignore their messages, and take no harm from their values")
  func mixedVersions() throws {
    let rate = "rateLimit: { perSecond: 1000, burst: 1000 }"
    let replicas = try Replicas(1, ["ACCESS_ANONYMOUS": "{ token: true, \(rate) }"])
    let server = replicas.servers[0]
    #expect(try server.request("/token").status == 200)
    let console = try RedisConsole(path: replicas.store.socket)
    var buckets: [[UInt8]] = []
    try eventually("the caller's bucket is at the store") {
      buckets = try console.command("KEYS", "{musickit}:rate:????????").elements?.compactMap(\.bytes) ?? []
      return buckets.count == 1
    }
    // A newer version may have other forms of a bucket, of a settlement's number, and of a member.
    try console.command([Array("SET".utf8), buckets[0], Array("v2 1 2 3".utf8)])
    try console.command("SET", "{musickit}:rate:settled:12345678", "v2")
    for kind in 0...UInt8(5) {
      let message = [kind, 2] + Array("12345678 a payload of another form".utf8)
      try console.command([Array("PUBLISH".utf8), Array("{musickit}:events".utf8), message])
    }
    try eventually("the messages are counted") {
      try MetricsPage(of: server)["musickit_shared_messages_invalid_total"] == 6
    }
    for _ in 1...5 { #expect(try server.request("/token").status == 200) }
    // The member counts, and so its part of the rates would be its own if the store failed.
    try eventually("a group of two") {
      try replicas.store.beat("members", "v2:10.0.0.1:9000")
      return try Replicas.check(server) == ("ok", "2 replicas share it")
    }
    let page = try MetricsPage(of: server)
    for kind in ["rates", "quota", "cache"] { #expect(page["musickit_shared_messages_total", ["kind": kind]] == 0) }
    #expect(page["musickit_shared_commands_refused_total"] == 0)
    #expect(try console.command([Array("GET".utf8), buckets[0]]).string == "v2 1 2 3")
    #expect(server.stop() == 0)
  }
}
