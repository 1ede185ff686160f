import JSON
import TestSupport
import Testing

@Suite("Apple's quota")
struct UpstreamQuotaTests {
  private static let song = "/v1/catalog/us/songs/1200868616"

  @Test("exceeded once causes a retry of a GET, which succeeds")
  func once() throws {
    let ground = try UpstreamGround()
    let sandbox = try ground.sandbox()
    let server = try ground.serve(sandbox)
    try sandbox.fault("rate-limit", count: 1)
    #expect(try server.request(Self.song).status == 200)
    #expect(try sandbox.requestsSeen() == 2)
  }

  @Test("exceeded for longer gives a stale response, or 429 with Retry-After if none is stored")
  func standing() throws {
    let ground = try UpstreamGround()
    let sandbox = try ground.sandbox("--cache-fields", "none")
    let stale = ["CATALOG_CACHE_LIFETIME": "0s", "CATALOG_CACHE_STALE_WHILE_REVALIDATE": "0s"]
    let server = try ground.serve(sandbox, stale)
    let fresh = try server.request(Self.song)
    #expect(fresh.status == 200)
    try sandbox.fault("rate-limit")
    let stored = try server.request(Self.song)
    #expect(stored.status == 200)
    #expect(stored.body == fresh.body)
    // The response does not wait for the retries.
    #expect(try #require(stored["Cache-Status"]).contains("detail=\"stale-after\""))
    let refused = try server.request("/v1/catalog/us/songs/1200868874")
    #expect(refused.status == 429)
    #expect(refused.errorCode == "upstream_rate_limited")
    #expect(refused["Retry-After"].flatMap { Int($0) } ?? 0 >= 1)
    #expect(refused["Proxy-Status"]?.contains("received-status=429") == true)
    #expect(!refused.text.contains("API capacity exceeded"))
    try server.process.waitForErrors("limits the team's requests")
    try sandbox.endFaults()
    #expect(try server.request("/v1/catalog/us/songs/1200868874").status == 200)
  }

  @Test("exceeded by an unsafe method causes no retry")
  func unsafeMethod() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(upstream)
    try upstream.behave("status-429")
    let response = try server.request(
      "/v1/me/ratings/songs/1", "-X", "DELETE", "-H", "Music-User-Token: user")
    #expect(response.status == 429)
    #expect(response.errorCode == "upstream_rate_limited")
    #expect(try upstream.count("requests") == 1)
  }

  @Test("makes a greedy client wait, and another client's request starts immediately")
  func fairness() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(upstream, ["CATALOG_CONCURRENCY": "8"])
    try upstream.behave("hold")
    let greedy = try ground.load(server, 40)
    while try #require(try greedy.line()) != "sent" {}
    try eventually("the greedy one has its share") { try upstream.count("held") == 7 }
    let modest = try ChildProcess(
      "curl", ["-sS", "--noproxy", "*", "--interface", "127.0.0.2", "\(server.url)/v1/catalog/us/songs/modest"])
    try eventually("the modest one's request is there") { try upstream.count("held") == 8 }
    #expect(try upstream.admin("/").json?["paths"]?["/v1/catalog/us/songs/modest"]?.integer == 1)
    #expect(try upstream.count("requests") == 8)
    try upstream.behave("ok")
    try upstream.release()
    #expect(modest.wait() == 0)
    let (statuses, wrong) = try greedy.loadReport()
    #expect(statuses == ["200": 40])
    #expect(wrong == .array([]))
  }
}
