import JSON
import TestSupport
import Testing

@Suite("A 401 of Apple")
struct UpstreamTokenRejectionTests {
  private static let song = "/v1/catalog/us/songs/1200868616"

  @Test("causes a retry with a fresh token, and the client gets the second response")
  func once() throws {
    let ground = try UpstreamGround()
    let sandbox = try ground.sandbox()
    let server = try ground.serve(sandbox)
    try sandbox.fault("empty-401", count: 1)
    let response = try server.request(Self.song)
    #expect(response.status == 200)
    #expect(response["Proxy-Status"] == nil)
    #expect(try sandbox.requestsSeen() == 2)
    #expect(try server.request("/readyz").json?["status"]?.string == "ready")
  }

  @Test("that persists causes one fresh token for all clients and 502, until Apple accepts tokens again")
  func standing() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(upstream)
    #expect(try server.request("/v1/catalog/us/songs/first").status == 200)
    try upstream.behave("status-401")
    let (statuses, wrong) = try ground.load(server, 50).loadReport()
    #expect(statuses == ["502": 50])
    #expect(wrong == .array([]))
    #expect(try upstream.count("tokens") == 2)

    let response = try server.request(Self.song)
    #expect(response.status == 502)
    #expect(response.errorCode == "developer_token_rejected")
    #expect(try #require(response.errorDetail).contains("key, key ID and team ID"))
    #expect(response["Proxy-Status"]?.contains("received-status=401") == true)
    #expect(response["Cache-Control"] == "no-store")
    let readiness = try server.request("/readyz")
    #expect(readiness.status == 200)
    #expect(readiness.json?["status"]?.string == "degraded")
    #expect(try server.admin("/readyz").json?["checks"]?["appleMusic"]?["status"]?.string == "degraded")
    #expect(try upstream.count("tokens") == 2)

    try upstream.behave("ok")
    #expect(try server.request("/v1/catalog/us/songs/last").status == 200)
    #expect(try server.request("/readyz").json?["status"]?.string == "ready")
    server.stop()
    let errors = server.logLines.compactMap { $0 }.filter { $0["level"]?.string == "error" }
    #expect(errors.count == 1, "\(server.log)")
    #expect(errors[0]["message"]?.string?.hasPrefix("Apple Music refuses this server's developer token.") == true)
    #expect(server.log.contains("accepts this server's developer tokens again"))
    #expect(!server.log.contains("eyJ"))
  }

  @Test(
    "has its reason in the error and in the log",
    arguments: [
      ("--clock-skew=-400", false, "s ahead of Apple's"),
      ("--clock-skew=4000", false, "s behind Apple's"),
      ("--team-id=OTHERTEAM1", false, "key, key ID and team ID do not belong together"),
      ("--clock-skew=0", true, "key, key ID and team ID do not belong together"),
    ])
  func reason(_ argument: String, _ hasOtherKey: Bool, _ words: String) throws {
    let ground = try UpstreamGround()
    let other = try UpstreamGround()
    let sandbox = try (hasOtherKey ? other : ground).sandbox(argument)
    let server = try ground.serve(sandbox)
    let response = try server.request(Self.song)
    #expect(response.status == 502)
    #expect(response.errorCode == "developer_token_rejected")
    #expect(try #require(response.errorDetail).contains(words))
    #expect(try sandbox.allRequestsSeen() == 3, "with the old token, with a fresh one, and at /v1/test")
    try server.process.waitForErrors(words)
  }

  @Test("because of a user token is forwarded, and the developer token stays valid")
  func user() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(upstream)
    try upstream.behave("user-401")
    let response = try server.request("/v1/me/library/songs", "-H", "Music-User-Token: user")
    #expect(response.status == 401)
    #expect(response.errorCode == nil)
    #expect(try upstream.count("tokens") == 1)
    let paths = try upstream.admin("/").json?["paths"]
    #expect(paths?["/v1/test"]?.integer == 1)
    #expect(paths?["/v1/me/library/songs"]?.integer == 1)
    #expect(try server.request("/readyz").json?["status"]?.string == "ready")
  }

  @Test("because of a made-up user token does not change the state of the developer token")
  func madeUpUser() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(upstream)
    func ask() throws -> Int? {
      try server.request("\(Self.song)?relate=library", "-H", "Music-User-Token: made-up").status
    }
    try upstream.behave("user-401")
    for _ in 0..<3 { #expect(try ask() == 401) }
    #expect(try upstream.count("tokens") == 1)
    #expect(try server.request("/readyz").json?["status"]?.string == "ready")

    try upstream.behave("status-401")
    #expect(try server.request("/v1/catalog/us/songs/1").status == 502)
    #expect(try server.request("/readyz").json?["status"]?.string == "degraded")
    try upstream.behave("user-401")
    #expect(try server.request("/v1/catalog/us/songs/2").status == 200)
    for _ in 0..<3 { #expect(try ask() == 401) }
    #expect(try server.request("/readyz").json?["status"]?.string == "ready")
  }

  @Test("to /v1/me and to /v1/test means that the developer token is rejected")
  func ours() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(upstream)
    try upstream.behave("status-401")
    let response = try server.request("/v1/me/library/songs", "-H", "Music-User-Token: user")
    #expect(response.status == 502)
    #expect(response.errorCode == "developer_token_rejected")
    #expect(try upstream.count("tokens") == 2)
    #expect(try server.request("/readyz").json?["status"]?.string == "degraded")
  }
}
