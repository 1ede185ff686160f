import TestSupport
import Testing

@Suite("The rates of replicas that share a store")
struct ReplicaRateTests {
  /// Replicas whose callers may send `burst` requests, and practically no more.
  private static func replicas(
    _ count: Int, burst: Int, _ more: String = "", trustedProxies: String = "[]"
  ) throws -> Replicas {
    try Replicas(
      count,
      [
        "ACCESS_ANONYMOUS": "{ token: true, rateLimit: { perSecond: 0.01, burst: \(burst)\(more) } }",
        "SERVER_TRUSTED_PROXIES": trustedProxies,
      ])
  }

  /// The number of granted requests among `count`, all sent at once to one replica.
  private static func grants(_ count: Int, _ server: RunningServer, _ fields: String = "") throws -> [Int: Int] {
    let client = try RawClient(port: server.port)
    try client.send(String(repeating: "GET /token HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n", count: count))
    var statuses: [Int: Int] = [:]
    for _ in 0..<count { statuses[try #require(try client.response()).status, default: 0] += 1 }
    return statuses
  }

  @Test("a caller that has used its burst at one replica is refused by all")
  func hopping() throws {
    let replicas = try Self.replicas(3, burst: 500, trustedProxies: "['127.0.0.1']")
    var caller = 0
    var address: String { "X-Forwarded-For: 198.51.100.\(caller)" }
    // On a busy machine the store may respond late. Then the replica grants its own part.
    try eventually("a caller gets its burst at one replica") {
      caller += 1
      return try Self.grants(501, replicas.servers[0], "\(address)\r\n")[200, default: 0] >= 500
    }
    for server in replicas.servers {
      var granted = 0
      try eventually("all replicas refuse the caller") {
        let status = try server.request("/token", "-H", address).status
        granted += status == 200 ? 1 : 0
        return status == 429
      }
      #expect(granted < 500)
    }
  }

  @Test("a replica refuses the first request of a caller that has used its burst elsewhere")
  func publishing() throws {
    let rate = "{ token: true, rateLimit: { perSecond: 0.01, burst: 1 } }"
    let replicas = try Replicas(2, ["ACCESS_ANONYMOUS": rate, "SERVER_TRUSTED_PROXIES": "['127.0.0.1']"])
    let callers = (0..<250).map { "198.51.100.\($0)" }
    let client = try RawClient(port: replicas.servers[0].port)
    for caller in callers {
      try client.send("GET /token HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: \(caller)\r\n\r\n")
      #expect(try client.response()?.status == 200)
    }
    // Each caller asks the second replica only once. The news comes long before the last one.
    let isRefused = try callers.contains { caller in
      try replicas.servers[1].request("/token", "-H", "X-Forwarded-For: \(caller)").status == 429
    }
    #expect(isRefused)
  }

  @Test("a caller that used all replicas at once repays what it got")
  func overdraft() throws {
    let burst = 10
    let rate = "{ token: true, rateLimit: { perSecond: 0.01, burst: \(burst) } }"
    let replicas = try Replicas(2, ["ACCESS_ANONYMOUS": rate, "SERVER_TRUSTED_PROXIES": "['127.0.0.1']"])
    var (caller, tooMany) = (0, 0)
    // On a busy machine the second replica may hear of the first one's grants before it gets the request.
    try eventually("both replicas grant a caller its burst at once") {
      caller += 1
      let request = "GET /token HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 198.51.100.\(caller)\r\n\r\n"
      let clients = try replicas.servers.map { try RawClient(port: $0.port) }
      for client in clients { try client.send(String(repeating: request, count: burst)) }
      let statuses = try clients.flatMap { client in
        try (0..<burst).map { _ in try #require(try client.response()).status }
      }
      tooMany = statuses.count { $0 == 200 } - burst
      return tooMany >= burst / 2
    }
    // One token takes 100 s, so the caller waits for at least those that it got too many.
    for server in replicas.servers {
      try eventually("the replica knows of the overdraft") {
        let response = try server.request("/token", "-H", "X-Forwarded-For: 198.51.100.\(caller)")
        return response["Retry-After"].flatMap { Int($0) } ?? 0 > 90 * tooMany
      }
    }
  }

  @Test("failed credentials of an address count together")
  func failures() throws {
    let replicas = try Self.replicas(2, burst: 500)
    let field = "Authorization: Bearer wrong\r\n"
    let clients = "[{ id: 'key', apiKey: { sha256: '\(try AccessGround.sha256("right"))' } }]"
    let known = try Replicas(2, store: replicas.store, ["ACCESS_CLIENTS": clients, "SHARED_KEY_PREFIX": "known"])
    let statuses = try Self.grants(120, known.servers[0], field)
    #expect(try #require(statuses[401]) >= 100)
    var attempts = 0
    try eventually("the other replica slows the address down") {
      attempts += 5
      // Several at once, because a slow machine would send them no faster than they may come.
      return try Self.grants(5, known.servers[1], field)[429] != nil
    }
    #expect(attempts < 100)
    #expect(try known.servers[1].request("/token", "-H", "Authorization: Bearer right").status == 200)
  }

  @Test("a strict rate grants no more by three replicas than by one")
  func strict() throws {
    let replicas = try Self.replicas(3, burst: 20, ", strict: true")
    var statuses: [Int] = []
    for number in 0..<60 {
      let method = number % 2 == 0 ? "GET" : "POST"
      statuses.append(try replicas.servers[number % 3].request("/token", "-X", method).status)
    }
    #expect(Set(statuses).isSubset(of: [200, 429]))
    let granted = statuses.count { $0 == 200 }
    #expect(granted <= 20)
    // A reply after the deadline may take a token that the caller does not get.
    #expect(granted > 10)
    #expect(statuses.suffix(30).allSatisfy { $0 == 429 })
  }

  @Test(
    "without the store each replica grants its part, and a strict one decides by itself",
    arguments: ["", ", strict: true"])
  func alone(more: String) throws {
    let replicas = try Self.replicas(3, burst: 30, more)
    replicas.store.kill()
    for server in replicas.servers {
      try eventually("the replica notices it") { try Replicas.check(server).status == "degraded" }
    }
    for server in replicas.servers { #expect(try Self.grants(30, server) == [200: 10, 429: 20]) }
    try replicas.store.start()
    try replicas.waitUntilTogether()
    // The store is empty, but the replicas have not forgotten, and tell it.
    for server in replicas.servers { #expect(try server.request("/token").status == 429) }
  }

  @Test("a store that has stopped to respond costs a caller of a strict rate no request")
  func stoppedStore() throws {
    let replicas = try Self.replicas(1, burst: 20, ", strict: true")
    replicas.store.pause()
    #expect(try Self.grants(21, replicas.servers[0]) == [200: 20, 429: 1])
    replicas.store.resume()
  }

  @Test("the store learns no address, no client and no key")
  func secrecy() throws {
    let clients =
      "[{ id: 'partner', apiKey: { sha256: '\(try AccessGround.sha256("right"))' }, rateLimit: { perSecond: 0.01 } }]"
    let replicas = try Replicas(1, ["ACCESS_CLIENTS": clients])
    let server = replicas.servers[0]
    #expect(try server.request("/token", "-H", "Authorization: Bearer right").status == 200)
    // The bucket of fifty failed attempts is not full for almost a minute, and until then the store has it.
    #expect(try Self.grants(50, server, "Authorization: Bearer wrong\r\n") == [401: 50])
    let console = try RedisConsole(path: replicas.store.socket)
    var buckets: [[UInt8]] = []
    try eventually("both buckets are at the store") {
      let keys = try console.command("KEYS", "{musickit}:rate:????????").elements ?? []
      buckets = keys.compactMap(\.bytes)
      return buckets.count == 2
    }
    for key in try #require(try console.command("KEYS", "*").elements?.compactMap(\.bytes)) {
      let dump = try console.command([Array("DUMP".utf8), key]).bytes ?? []
      for text in ["127.0.0.1", "partner", "right", "wrong"] {
        #expect((key + dump).firstRange(of: Array(text.utf8)) == nil)
      }
    }
  }
}
