import JSON
import TestSupport
import Testing

@Suite("Replicas that share cached responses")
struct SharedCacheTests {
  private static let album = CatalogGround.album

  /// Replicas with the same emulator as their upstream.
  private struct Cluster {
    let emulator: Emulator
    let replicas: Replicas

    init(_ count: Int, _ more: [String: String] = [:], store: RedisServer? = nil) throws {
      let ground = try Ground()
      emulator = try Emulator(ground)
      let own = emulator.settings.merging(["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]) { $1 }
      replicas = try Replicas(count, store: store, ground: ground, own.merging(more) { $1 })
    }

    var store: RedisServer { replicas.store }
    var servers: [RunningServer] { replicas.servers }

    /// The keys of a kind at the store.
    func keys(_ kind: String) throws -> [String] {
      try store.run("KEYS", "{musickit}:\(kind):*").split(separator: "\n").map(String.init)
    }

    /// Waits until the store has a number of entries.
    func waitForEntries(_ count: Int) throws {
      try eventually("\(count) entries at the store") { try keys("cache").count == count }
    }

    /// The lookups by their result, of all replicas that run.
    func lookups() -> [String: Double] {
      let results = ["hit", "waited", "miss", "invalid", "timeout", "vain", "skipped"]
      let pages = servers.compactMap { try? MetricsPage(of: $0) }
      let counts = results.map { result in
        pages.reduce(0) { $0 + ($1["musickit_shared_cache_lookups_total", ["result": result]] ?? 0) }
      }
      return Dictionary(uniqueKeysWithValues: zip(results, counts)).filter { $0.value > 0 }
    }

    /// Sends a request to a replica, and returns the connection once `condition` holds.
    func begin(_ replica: Int, until condition: () throws -> Bool) throws -> RawConnection {
      let connection = try servers[replica].connect()
      connection.send("GET \(SharedCacheTests.album) HTTP/1.1\r\nHost: a\r\n\r\n")
      try eventually("the request has its effect", condition)
      return connection
    }

    /// Whether a replica has announced a fetch and another one waits for it, which leaves a mark behind the ID.
    func isAwaited() throws -> Bool {
      try keys("fetch").contains { try store.run("GET", $0).hasSuffix("+") }
    }
  }

  /// Returns what happens with replicas that share a store.
  private func scene<Seen>(
    _ count: Int = 2, _ settings: [String: String] = [:], store: RedisServer? = nil, _ body: (Cluster) throws -> Seen
  ) throws -> Seen {
    try body(Cluster(count, settings, store: store))
  }

  @Test("share a store whose replies take 80 ms, if shared.timeout allows it")
  func far() throws {
    let port = UpstreamGround.fixedPort
    let store = try RedisServer(["--port", "\(port)"])
    let relay = try ChildProcess(
      Repository.python, [Repository.script("relay.py"), "\(port)", "40"], holdsInput: true)
    let url = "redis://127.0.0.1:\(try #require(try relay.line()))"
    try scene(2, ["SHARED_URL": url], store: store) { cluster in
      for number in 1...5 {
        let target = "/v1/catalog/us/search?term=a\(number)&types=songs"
        #expect(try cluster.servers[0].request(target).status == 200)
        try cluster.waitForEntries(number)
        #expect(try cluster.servers[1].request(target)["Cache-Status"]?.contains("; detail=\"shared\"") == true)
      }
      for server in cluster.servers { #expect(!server.log.contains("is of no use")) }
    }
  }

  @Test("have a response of another replica without a request to Apple, and in memory from then on")
  func hit() throws {
    let seen = try scene { cluster in
      let first = try cluster.servers[0].request(Self.album, "--compressed")
      try cluster.waitForEntries(1)
      let others = try (0..<2).map { _ in try cluster.servers[1].request(Self.album, "--compressed") }
      return (first, others, try cluster.emulator.count(), cluster.lookups(), try cluster.keys("fetch"))
    }
    let (first, others, count, lookups, announcements) = seen
    #expect(first.status == 200 && first["Cache-Status"]?.contains("fwd=uri-miss") == true)
    for other in others {
      #expect(other.status == 200 && other.body == first.body && other["ETag"] == first["ETag"] && other["Age"] != nil)
      #expect(other["Cache-Status"]?.contains("; hit; ttl=") == true)
    }
    #expect(others.map { $0["Cache-Status"]?.contains("; detail=\"shared\"") } == [true, false])
    #expect(count == 1 && lookups == ["miss": 1, "hit": 1] && announcements.isEmpty)
  }

  @Test("store responses compressed, with an expiry, under a key that tells nothing")
  func entry() throws {
    let seen = try scene(1) { cluster in
      let response = try cluster.servers[0].request(Self.album)
      try cluster.waitForEntries(1)
      let key = try cluster.keys("cache")[0]
      let numbers = try ["TTL", "STRLEN"].map { Int(try cluster.store.run($0, key)) ?? -1 }
      try eventually("the reply is counted") {
        try MetricsPage(of: cluster.servers[0])["musickit_shared_cache_stores_total"] == 1
      }
      return (response.body.count, key, numbers)
    }
    #expect(seen.1.count == "{musickit}:cache:".count + 32)
    #expect((86_400 + 200...86_400 + 300).contains(seen.2[0]))
    #expect(seen.2[1] < seen.0, "the fields included")
  }

  @Test("send one request for a hundred callers of three replicas")
  func hundred() throws {
    try scene(3) { cluster in
      // Shorter than an announcement lives, and few callers: a loop that they keep busy renews it late.
      try cluster.emulator.fail("delay=1s")
      var term = 0
      // An announcement that a busy machine renews too late lapses, and then another replica sends a request of its own.
      try eventually("one request serves them all") {
        let before = (count: try cluster.emulator.count(), lookups: cluster.lookups())
        term += 1
        let herds = try cluster.servers.map { server in
          try ChildProcess(
            Repository.python,
            [Repository.script("herd.py"), "\(server.port)", "34", "/v1/catalog/us/search?term=a\(term)"],
            environment: nil)
        }
        for herd in try herds.map({ JSONReader.read(Array((try $0.line() ?? "").utf8)) }) {
          #expect(herd?["statuses"]?["200"]?.integer == 34, "\(herd ?? .null)")
          #expect(herd?["bodies"]?.integer == 1)
        }
        let (count, lookups) = (try cluster.emulator.count() - before.count, cluster.lookups())
        let grown = lookups.mapValues(Int.init).merging(before.lookups.mapValues { -Int($0) }, uniquingKeysWith: +)
        #expect(grown["miss"] == count)
        #expect(grown["hit", default: 0] + grown["waited", default: 0] == 3 - count, "\(grown)")
        return count == 1
      }
    }
  }

  @Test("go on with one request when the replica that fetches is killed")
  func killed() throws {
    let (statuses, count, lookups, announcements) = try scene(3) { cluster in
      try cluster.emulator.fail("delay=60s", count: 1)
      let first = try cluster.begin(0) { try cluster.emulator.count() == 1 }
      let others = try [1, 2].map { try cluster.begin($0) { try cluster.isAwaited() } }
      cluster.servers[0].process.kill()
      let statuses = try withExtendedLifetime(first) { try others.map { try $0.response().status } }
      return (statuses, try cluster.emulator.count(), cluster.lookups(), try cluster.keys("fetch"))
    }
    #expect(statuses == [200, 200] && count == 2)
    #expect(lookups == ["miss": 1, "waited": 1] || lookups == ["miss": 1, "hit": 1])
    #expect(announcements.isEmpty)
  }

  @Test("renew the announcement of a fetch that takes longer than it lives")
  func renewal() throws {
    try scene { cluster in
      try cluster.emulator.fail("delay=60s", count: 1)
      // The only caller, so no other replica can announce a fetch of its own.
      let caller = try cluster.begin(0) { try cluster.emulator.count() == 1 }
      let announcement = try #require(try cluster.keys("fetch").first)
      var rest = 0
      try eventually("the announcement lives longer again") {
        let before = rest
        rest = Int(try cluster.store.run("PTTL", announcement)) ?? 0
        return before > 0 && rest > before
      }
      withExtendedLifetime(caller) {}
    }
  }

  @Test("wake the others at the end of a fetch")
  func wakened() throws {
    let (statuses, count, messages) = try scene { cluster in
      try cluster.emulator.fail("delay=60s", count: 1)
      let first = try cluster.begin(0) { try cluster.emulator.count() == 1 }
      let second = try cluster.begin(1) { try cluster.isAwaited() || cluster.emulator.count() == 2 }
      try cluster.emulator.release()
      let statuses = try [first, second].map { try $0.response().status }
      let messages = try MetricsPage(of: cluster.servers[1])["musickit_shared_messages_total", ["kind": "cache"]]
      return (statuses, try cluster.emulator.count(), messages)
    }
    #expect(statuses == [200, 200])
    // An announcement that a busy machine renews too late lapses, and then the other replica sends a request of its own.
    #expect(messages == 1 || count == 2)
  }

  @Test("try one after another when a fetch fails")
  func failure() throws {
    let (statuses, count, lookups) = try scene { cluster in
      try cluster.emulator.fail("delay=60s,status=503", count: 1)
      let first = try cluster.begin(0) { try cluster.emulator.count() == 1 }
      let second = try cluster.begin(1) { try cluster.isAwaited() || cluster.emulator.count() == 2 }
      try cluster.emulator.release()
      let statuses = try [first, second].map { try $0.response().status }
      return (statuses, try cluster.emulator.count(), cluster.lookups())
    }
    #expect(statuses == [502, 200] && count == 2 && lookups == ["miss": 2])
  }

  @Test("ask Apple while the store is stopped, and the store again afterwards")
  func stopped() throws {
    let cluster = try Cluster(2)
    cluster.store.pause()
    try eventually("the server does not ask the store") {
      let number = try cluster.emulator.count()
      #expect(try cluster.servers[0].request("/v1/catalog/us/search?term=a\(number)").status == 200)
      #expect(try cluster.emulator.count() == number + 1)
      return cluster.lookups()["skipped", default: 0] > 2
    }
    cluster.store.resume()
    try eventually("the server asks the store again") {
      let number = try cluster.emulator.count()
      #expect(try cluster.servers[0].request("/v1/catalog/us/search?term=a\(number)").status == 200)
      return cluster.lookups()["miss", default: 0] > 0
    }
  }

  @Test("stop to wait for another replica when the store is gone")
  func gone() throws {
    let cluster = try Cluster(2)
    try cluster.emulator.fail("delay=60s", count: 1)
    let first = try cluster.begin(0) { try cluster.emulator.count() == 1 }
    let second = try cluster.servers[1].connect()
    second.send("GET \(Self.album) HTTP/1.1\r\nHost: a\r\n\r\n")
    try eventually("the second request has begun") {
      try cluster.isAwaited() || (try cluster.emulator.count()) == 2
    }
    cluster.store.kill()
    #expect(try withExtendedLifetime(first) { try second.response().status } == 200)
    #expect(try cluster.emulator.count() == 2)
  }

  /// What may stand in the place of an entry. The arguments: the store, the key, and another key with an entry.
  struct Wrong: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Whether the store sends it at all.
    var isRead = true
    let write: @Sendable (RedisServer, String, String) throws -> Void
  }

  static let wrongs = [
    Wrong(testDescription: "garbage") { store, key, _ in try store.run("SET", key, "garbage") },
    Wrong(testDescription: "nothing") { store, key, _ in try store.run("SET", key, "") },
    Wrong(testDescription: "a changed byte") { store, key, _ in try store.run("SETRANGE", key, "200", "\u{1}") },
    Wrong(testDescription: "an entry of another key") { store, key, other in
      try store.run("COPY", other, key, "REPLACE")
    },
    Wrong(testDescription: "a newer version") { store, key, _ in try store.run("SETRANGE", key, "32", "\u{3}") },
    Wrong(testDescription: "an entry with more bytes") { store, key, _ in try store.run("APPEND", key, "x") },
    Wrong(testDescription: "two megabytes, more than any entry has", isRead: false) { store, key, _ in
      try store.run("SETRANGE", key, "2000000", "x")
    },
  ]

  @Test("treat a wrong entry as a miss and replace it", arguments: wrongs)
  func wrong(_ wrong: Wrong) throws {
    let (first, second, third, count, lookups) = try scene(3) { cluster in
      let first = try cluster.servers[0].request(Self.album)
      try cluster.waitForEntries(1)
      let key = try cluster.keys("cache")[0]
      _ = try cluster.servers[0].request("/v1/catalog/us/artists/178834")
      try cluster.waitForEntries(2)
      try wrong.write(cluster.store, key, try cluster.keys("cache").first { $0 != key } ?? "")
      let length = try cluster.store.run("STRLEN", key)
      let second = try cluster.servers[1].request(Self.album)
      try eventually("the entry is replaced") {
        try cluster.store.run("STRLEN", key) != length
          || (try MetricsPage(of: cluster.servers[1])["musickit_shared_cache_stores_total"]) == 1
      }
      let third = try cluster.servers[2].request(Self.album)
      return (first, second, third, try cluster.emulator.count(), cluster.lookups())
    }
    #expect(second.status == 200 && second.body == first.body && third.body == first.body)
    #expect(second["Cache-Status"]?.contains("fwd=uri-miss") == true)
    #expect(third["Cache-Status"]?.contains("shared") == true)
    let expected: [String: Double] = wrong.isRead ? ["miss": 2, "invalid": 1, "hit": 1] : ["miss": 3, "hit": 1]
    #expect(count == 3 && lookups == expected, "\(count) requests, \(lookups)")
  }

  @Test(
    "get along with a value of another type in the place of an entry or of an announcement",
    arguments: ["cache", "fetch"])
  func type(_ kind: String) throws {
    let cluster = try Cluster(1)
    _ = try cluster.servers[0].request(Self.album)
    try cluster.waitForEntries(1)
    let entry = try cluster.keys("cache")[0]
    try cluster.store.run("DEL", entry)
    try cluster.store.run("RPUSH", entry.replacing("cache", with: kind), "a")
    #expect(try cluster.servers[0].request(Self.album, "-H", "Cache-Control: no-cache").status == 200)
    let fresh = try cluster.replicas.ground.serve(
      cluster.emulator.settings.merging([
        "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "SHARED_URL": "unix://\(cluster.store.socket)",
      ]) { $1 })
    #expect(try fresh.request(Self.album).status == 200)
  }

  @Test("never put anything of a user, of a credential or of /v1/test into the store")
  func secrecy() throws {
    let (before, values, secrets) = try scene(1, CatalogGround.forEverybody) { cluster in
      let server = cluster.servers[0]
      for target in ["/v1/me/library/songs", "/v1/me/storefront", "/v1/test", "\(Self.album)?relate=library"] {
        _ = try server.request(target, "-H", "Music-User-Token: SANDBOX-USER-SECRET")
      }
      _ = try server.request(Self.album, "-H", "Cache-Control: no-store")
      let before = try cluster.keys("cache") + cluster.keys("fetch")
      _ = try server.request(Self.album, "-H", "Music-User-Token: SANDBOX-USER-SECRET")
      try cluster.waitForEntries(1)
      let keys = try cluster.store.run("KEYS", "*").split(separator: "\n").map(String.init)
      let values = try keys.filter { try cluster.store.run("TYPE", $0) == "string" }.map {
        try cluster.store.run("GET", $0)
      }
      let credentials = try cluster.emulator.requests().compactMap { $0["authorization"]?.split(separator: " ").last }
      let secrets = [try server.request("/token").token ?? "none"] + credentials.map(String.init)
      return (before, keys + values, secrets)
    }
    #expect(before.isEmpty && values.count >= 2 && secrets.count >= 2)
    for value in values {
      for secret in secrets + ["SANDBOX-USER-SECRET", "eyJ", "Bearer", "Authorization", Ground.teamID] {
        #expect(!value.contains(secret))
      }
    }
  }

  @Test("do not read the responses of replicas with another key")
  func tenants() throws {
    let store = try RedisServer()
    for count in 1...2 {
      let ground = try Ground()
      let emulator = try Emulator(ground)
      let own = [
        "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "SHARED_URL": "unix://\(store.socket)",
        "SHARED_TIMEOUT": "5s",
      ]
      let server = try ground.serve(emulator.settings.merging(own) { $1 })
      try eventually("the store responds") { try MetricsPage(of: server)["musickit_shared_store_usable"] == 1 }
      #expect(try server.request(Self.album)["Cache-Status"]?.contains("fwd=uri-miss") == true)
      try eventually("\(count) entries") {
        try store.run("KEYS", "{musickit}:cache:*").split(separator: "\n").count == count
      }
    }
  }
}
