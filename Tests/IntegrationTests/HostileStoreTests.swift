import JSON
import TestSupport
import Testing

@Suite("A replica with a hostile store")
struct HostileStoreTests {
  /// The most anonymous memory of the server: 16 MiB. It has about 5.
  private static let mostMemory = 16 << 20

  /// What a store does, and what a replica says of it.
  struct Mode: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let name: String
    /// How often the store does harm in the test.
    let count: Int
    /// The beginning of a reason in `/readyz`, which the store may give only at times.
    var reason = "It"
    /// Whether the store can say that there are 1,024 replicas, which leaves this one a thousandth of each rate
    /// (`docs/scaling.md`): of the test's rate, 1,000 requests per second.
    var lowersRates = false
  }

  static let modes = [
    Mode(testDescription: "garbage", name: "garbage", count: 8, reason: "It sent bytes that are no reply of Redis."),
    Mode(testDescription: "endless replies and messages", name: "endless", count: 1024, reason: "It sent"),
    Mode(testDescription: "replies of other types", name: "types", count: 64, lowersRates: true),
    Mode(testDescription: "replies out of order", name: "swapped", count: 16),
    Mode(testDescription: "a flood of messages", name: "flood", count: 256),
    Mode(testDescription: "a flood of empty messages", name: "nothings", count: 256),
    Mode(
      testDescription: "100,000,000 replicas", name: "many", count: 8,
      reason: "Its replies are wrong: it counts 100000000 replicas."),
    Mode(testDescription: "silence", name: "silent", count: 4),
    Mode(testDescription: "replies after 50 ms", name: "slow", count: 8),
  ]

  @Test("says that the replies are wrong, also if they were never right")
  func neverRight() throws {
    let store = try HostileStore("numbers")
    let server = try Ground().serve(["SHARED_URL": store.url, "SHARED_TIMEOUT": "5s"])
    try server.process.waitForErrors("is of no use. Its replies are wrong: it counts 0 replicas.")
    #expect(server.stop() == 0)
    withExtendedLifetime(store) {}
  }

  @Test("responds to every request, and needs little memory", arguments: modes)
  func hostile(_ mode: Mode) throws {
    let store = try HostileStore(mode.name)
    let upstream = try HostileUpstream()
    let server = try Ground().serve([
      "SHARED_URL": store.url, "CATALOG_UPSTREAM": upstream.url, "LOG_LEVEL": "error",
      "ACCESS_ANONYMOUS": "{ token: true, catalog: true, rateLimit: { perSecond: 1000000, burst: 1000000 } }",
    ])
    let client = try server.connect()
    var number = 0
    func exchange() throws {
      number += 1
      for target in ["/token", "/v1/catalog/us/albums/1", "/v1/catalog/us/albums/\(number)"] {
        var response: ParsedResponse
        repeat {
          client.send("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
          response = try client.response()
        } while mode.lowersRates && response.status == 429
        #expect(response.status == 200, "\(target): \(response.text)")
      }
    }
    for _ in 1...10 { try exchange() }
    try store.wait(for: mode.count)
    #expect(try server.anonymousBytes < Self.mostMemory)
    for _ in 1...20 { try exchange() }
    try eventually("the reason in /readyz") {
      try exchange()
      let check = try Replicas.check(server)
      return check.status == "degraded" && check.detail.hasPrefix("the store is of no use: \(mode.reason)")
    }
    try eventually("the metric of the store") {
      try MetricsPage(of: server)["musickit_shared_store_usable"] == 0
    }
    #expect(try server.request("/readyz").status == 200)
    #expect(try server.anonymousBytes < Self.mostMemory)
    #expect(server.stop() == 0)
    withExtendedLifetime((store, upstream)) {}
  }
}
