import JSON
import TestSupport
import Testing

@Suite("Replicas that share Apple's quota")
struct ReplicaQuotaTests {
  /// Replicas with the same emulator as their upstream, and no cache.
  private struct Cluster {
    let emulator: Emulator
    let replicas: Replicas
    var servers: [RunningServer] { replicas.servers }

    init(_ count: Int, _ limit: String...) throws {
      let ground = try Ground()
      emulator = try Emulator(ground, limit)
      let own = [
        "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "CATALOG_CACHE_MAX_BYTES": "0", "LOG_LEVEL": "error",
      ]
      replicas = try Replicas(count, ground: ground, emulator.settings.merging(own) { $1 })
      let limit = 200 / count
      try eventually("the requests in flight are divided") {
        try metrics("musickit_upstream_concurrency_limit").allSatisfy { (limit...limit + 2).contains(Int($0)) }
      }
    }

    /// The value of a metric at each replica.
    func metrics(_ name: String) throws -> [Double] { try servers.map { try MetricsPage(of: $0)[name] ?? -1 } }

    /// The number of the emulator's requests, without those of replicas that ask about their key.
    func catalogRequests() throws -> Int {
      try emulator.requests().count { $0.path.hasPrefix("/v1/catalog/") }
    }

    /// The rate that all replicas have; nil if they have none, or not the same.
    func teamRate() throws -> Double? {
      let rates = try metrics("musickit_upstream_rate")
      return rates[0] > 0 && rates.allSatisfy { $0 == rates[0] } ? rates[0] : nil
    }

    /// Sends requests for different resources to these replicas in turn, each over a connection of its own.
    func send(_ count: Int, _ name: String, to replicas: Range<Int>) throws -> [RawConnection] {
      try (0..<count).map { number in
        let connection = try servers[replicas.lowerBound + number % replicas.count].connect()
        connection.send("GET /v1/catalog/us/search?term=\(name)\(number) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection
      }
    }

    /// Sends requests for different resources to all replicas in turn, and returns the statuses.
    func request(_ count: Int, _ name: String) throws -> [Int] {
      try send(count, name, to: 0..<servers.count).map { try $0.response().status }
    }
  }

  @Test("all pause when Apple refuses a request of one, and have the same rate")
  func refusal() throws {
    // Apple accepts two requests, of which a replica may use one to test its key, and then one every eight minutes.
    let cluster = try Cluster(3, "--limit", "bucket:2/960s", "--retry-after", "seconds")
    let connections = try cluster.send(4, "first", to: 0..<1)
    try eventually("all replicas pause, and no request is under way") {
      try cluster.metrics("musickit_upstream_paused") == [1, 1, 1]
        && cluster.metrics("musickit_upstream_requests_in_flight") == [0, 0, 0]
    }
    let seen = try cluster.catalogRequests()
    let others = try cluster.send(2, "other", to: 1..<3)
    try eventually("their requests wait") {
      try cluster.metrics("musickit_upstream_requests_waiting")[1...].allSatisfy { $0 == 1 }
    }
    #expect(try cluster.catalogRequests() == seen)
    // The pause is published at once, the rate when the store has judged the refusal.
    try eventually("all have the same rate") { try cluster.teamRate() != nil }
    withExtendedLifetime((connections, others)) {}
  }

  @Test("of another team or another upstream have a quota of their own")
  func scopes() throws {
    let ground = try Ground()
    let limited = try Emulator(ground, ["--limit", "bucket:1/960s", "--retry-after", "seconds"])
    let other = try Emulator(ground)
    let store = try RedisServer()
    let shared = [
      "SHARED_URL": "unix://\(store.socket)", "SHARED_TIMEOUT": "5s", "LOG_LEVEL": "error",
      "ACCESS_ANONYMOUS": "{ token: true, catalog: true }",
    ]
    let first = try ground.serve(shared.merging(limited.settings) { $1 })
    let others = [
      try ground.serve(shared.merging(other.settings) { $1 }),
      try ground.serve(shared.merging(limited.settings) { $1 }.merging(["MUSICKIT_TEAM_ID": "TEAM999999"]) { $1 }),
    ]
    func all(_ name: String, _ labels: [String: String] = [:]) throws -> [Double] {
      try ([first] + others).map { try MetricsPage(of: $0)[name, labels] ?? -1 }
    }
    try eventually("each knows of all, and has all of its own requests in flight") {
      try all("musickit_shared_replicas") == [3, 3, 3] && all("musickit_upstream_concurrency_limit") == [200, 200, 200]
    }
    let connections = try (0..<3).map { number in
      let connection = try first.connect()
      connection.send("GET /v1/catalog/us/search?term=\(number) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      return connection
    }
    try eventually("the first one pauses, and the others have its message") {
      try all("musickit_upstream_paused")[0] == 1
        && all("musickit_shared_messages_total", ["kind": "quota"])[1...].allSatisfy { $0 > 0 }
    }
    let settled = try all("musickit_shared_settlements_total")
    try eventually("the others settle again") {
      try zip(all("musickit_shared_settlements_total"), settled).allSatisfy { $0 > $1 + 2 }
    }
    #expect(try all("musickit_upstream_paused") == [1, 0, 0])
    store.kill()
    try eventually("each keeps all of its quota") {
      try all("musickit_shared_store_usable") == [0, 0, 0]
        && all("musickit_upstream_concurrency_limit")[1...].allSatisfy { $0 == 200 }
    }
    withExtendedLifetime(connections) {}
  }

  // UpstreamAdmissionTests have the same script learn rates, and measure how much of a quota it uses and what is refused.
  @Test("share its rate, and keep it, each its part, when the store has gone")
  func pace() throws {
    // So little that a machine with a tenth of a processor for this sends more.
    let cluster = try Cluster(3, "--limit", "bucket:6/6s")
    let first = try cluster.request(18, "first")
    // Apple may refuse what a busy machine sends late in all its attempts, and the caller comes again.
    #expect(first.allSatisfy { $0 == 200 || $0 == 429 }, "\(first)")
    for number in first.indices where first[number] == 429 {
      try eventually("a refused caller is served") {
        try cluster.servers[number % 3].request("/v1/catalog/us/search?term=first\(number)").status == 200
      }
    }
    #expect(try cluster.metrics("musickit_upstream_rate_limited_total").reduce(0, +) > 0)
    #expect(try cluster.metrics("musickit_upstream_attempts_total").allSatisfy { $0 >= 6 })
    var team = 0.0
    try eventually("all have the same rate") {
      team = try cluster.teamRate() ?? 0
      return team > 0
    }
    cluster.replicas.store.kill()
    try eventually("each has its part") {
      try cluster.metrics("musickit_upstream_rate").allSatisfy { $0 > 0 && $0 <= team / 2 }
    }
    #expect(try cluster.metrics("musickit_upstream_concurrency_limit").allSatisfy { (60...80).contains($0) })
    for server in cluster.servers {
      // Apple may refuse what a busy machine sends late, and the caller comes again.
      try eventually("each serves requests") {
        try server.request("/v1/catalog/us/search?term=second").status == 200
      }
    }
  }

  @Test("hold requests back when Apple fails for the others, not for one alone, and go on when it responds again")
  func circuit() throws {
    let cluster = try Cluster(3)
    // A replica that has sent a request does not ask about its key some seconds later.
    #expect(try cluster.servers[2].request("/v1/catalog/us/search?term=first").status == 200)
    let before = try cluster.metrics("musickit_upstream_attempts_total")[2]
    try cluster.emulator.fail("status=503")
    func fail(at replicas: Range<Int>, until open: [Double]) throws {
      try eventually("the circuits are \(open)") {
        for server in cluster.servers[replicas] {
          _ = try server.request("/v1/catalog/us/search?term=\(cluster.emulator.count())")
        }
        return try cluster.metrics("musickit_upstream_circuit_open") == open
      }
    }
    try fail(at: 0..<1, until: [1, 0, 0])
    // The first one still has requests: without, what it has said counts for 15 s only.
    try fail(at: 0..<2, until: [1, 1, 1])
    #expect(try cluster.metrics("musickit_upstream_attempts_total")[2] == before)
    try cluster.emulator.fail("status=503", path: "/none")
    try eventually("the circuits of all are closed") {
      for server in cluster.servers[..<2] {
        _ = try server.request("/v1/catalog/us/search?term=\(cluster.emulator.count())")
      }
      return try cluster.metrics("musickit_upstream_circuit_open") == [0, 0, 0]
    }
  }

  /// Sets all numbers of the shared state, if there is one.
  private func change(_ key: String, _ value: String) -> [String] {
    let script = """
      local state = cmsgpack.unpack(redis.call('GET', KEYS[1]) or cmsgpack.pack({}))
      for name, old in pairs(state) do if type(old) == 'number' then state[name] = \(value) end end
      redis.call('SET', KEYS[1], cmsgpack.pack(state))
      """
    return ["EVAL", script, "1", key]
  }

  @Test("survive what others write in its place")
  func wrongValues() throws {
    let cluster = try Cluster(2, "--limit", "bucket:20/1s")
    _ = try cluster.request(60, "first")
    let key = try cluster.replicas.store.run("KEYS", "{musickit}:pace:*")
    for (number, command) in [
      ["SET", key, "x"], ["RPUSH", key, "x"], ["HSET", key, "rate", "nan"], change(key, "0/0"), change(key, "1/0"),
      change(key, "-1e14"), change(key, "1e14"), change(key, "'x'"), change(key, "{}"),
    ].enumerated() {
      if command[0] != "EVAL" { try cluster.replicas.store.run("DEL", key) }
      try cluster.replicas.store.run(arguments: command)
      let statuses = try cluster.request(10, "after\(number)-")
      #expect(statuses.allSatisfy { $0 == 200 }, "\(command): \(statuses)")
      for server in cluster.servers { #expect(try server.request("/healthz").status == 200) }
    }
  }
}
