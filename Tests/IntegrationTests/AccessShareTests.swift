import JSON
import TestSupport
import Testing

@Suite("A limit that several requests share")
struct AccessShareTests {
  private static func client(_ id: String, _ more: String) throws -> String {
    "{ id: '\(id)', apiKey: { sha256: '\(try AccessGround.sha256("\(id)-key"))' }, catalog: true, \(more) }"
  }

  @Test("keeps a greedy client within its share, and another client's request starts immediately")
  func quota() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let clients = try "[\(Self.client("greedy", "share: 0.5")), \(Self.client("modest", "share: 0.25"))]"
    let server = try ground.serve(
      upstream, ["CATALOG_CONCURRENCY": "8", "ACCESS_CLIENTS": clients, "ACCESS_ANONYMOUS": ""])
    try upstream.behave("hold")
    // One caller may use three of its client's four places, so the test needs two callers.
    let callers = try ["127.0.0.1", "127.0.0.2"].map { try ground.load(server, 20, key: "greedy-key", from: $0) }
    for caller in callers { while try #require(try caller.line()) != "sent" {} }
    try eventually("the greedy one has its part") { try upstream.count("held") == 4 }
    let modest = try ChildProcess(
      "curl",
      ["-sS", "--noproxy", "*", "-H", "X-API-Key: modest-key", "\(server.url)/v1/catalog/us/songs/modest"])
    try eventually("the modest one's request is there") { try upstream.count("held") == 5 }
    #expect(try upstream.admin("/").json?["paths"]?["/v1/catalog/us/songs/modest"]?.integer == 1)

    // Four at a time to the end: a fifth request would arrive too early.
    for round in 1..<10 {
      try upstream.release()
      try eventually("the next ones are there") { try upstream.count("requests") >= 5 + 4 * round }
      #expect(try upstream.count("requests") == 5 + 4 * round)
    }
    try upstream.release()
    #expect(modest.wait() == 0)
    for caller in callers {
      let (statuses, wrong) = try caller.loadReport()
      #expect(statuses == ["200": 20])
      #expect(wrong == .array([]))
    }
    #expect(try upstream.count("requests") == 41)
  }

  @Test(
    "grants exactly the burst to concurrent requests on two loops",
    arguments: [
      "rateLimit: { perSecond: 0.01, burst: 20 }", "rateLimit: { total: { perSecond: 0.01, burst: 20 } }",
      "rateLimit: { perSecond: 0.01, burst: 30, total: { perSecond: 0.01, burst: 20 } }",
    ], ["/token", "/v1/catalog/us/albums/1200868601"])
  func burst(rate: String, target: String) throws {
    let clients = try "[\(Self.client("one", rate)), \(Self.client("second", rate))]"
    let ground = try CatalogGround(["ACCESS_CLIENTS": clients, "ACCESS_ANONYMOUS": "", "SERVER_LOOPS": "2"])
    func herd(_ key: String, _ count: Int) throws -> JSONValue? {
      let arguments = [Repository.script("herd.py"), "\(ground.server.port)", "\(count)", target]
      let result = try run(Repository.python, arguments + ["X-API-Key: \(key)"])
      guard let report = JSONReader.read(result.standardOutput) else { throw TestFailure(result.stderr) }
      return report["statuses"]
    }
    let first = try #require(try herd("one-key", 100))
    #expect(first["200"]?.integer == 20 && first["429"]?.integer == 80, "\(first)")
    let late = try #require(try herd("one-key", 20))
    #expect(late["429"]?.integer == 20, "\(late)")
    let neighbour = try #require(try herd("second-key", 20))
    #expect(neighbour["200"]?.integer == 20, "\(neighbour)")
    ground.server.stop()
    #expect(ground.server.auditLines.count { $0.outcome == "granted" } == 40)
    #expect(ground.server.auditLines.count { $0.outcome == "limited" } == 100)
  }
}
