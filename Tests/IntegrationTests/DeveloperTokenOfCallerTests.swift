import JSON
import TestSupport
import Testing

/// Libraries for Apple's API send a developer token with every request.
@Suite("A caller with a developer token of this server")
struct DeveloperTokenOfCallerTests {
  private static let page = "Origin: https://app.example.com"

  @Test("has the rights of a caller without a credential, by both paths")
  func anonymous() throws {
    let ground = try AccessGround("", ["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"])
    let token = try #require(try ground.request("/token", key: nil).token)
    for _ in 0..<3 {
      #expect(try ground.request(AccessGround.album, key: token).status == 200)
      #expect(try ground.request("/token", key: token).status == 200)
    }
    #expect(
      try ground.request("/v1/me/storefront", key: token).status == 404, "a caller without a credential has no me")
    try eventually("the audit log has the anonymous client seven times") {
      ground.auditLines.count { $0.client == "anonymous" } >= 7
    }
  }

  @Test("without rights for callers without a credential is told what to send")
  func missing() throws {
    let ground = try AccessGround()
    let token = try #require(try ground.request("/token").token)
    let response = try ground.request(AccessGround.album, key: token)
    #expect(response.status == 401 && response.errorCode == "missing_credentials")
    #expect(try ground.request(AccessGround.album, key: token, "-H", Self.page).status == 200, "the origin counts")
    let other = try ground.request("/token", key: token, "-H", "Origin: https://evil.example")
    #expect(other.status == 403 && other.errorCode == "origin_not_allowed")
  }

  @Test("beside a credential is the caller of that credential")
  func beside() throws {
    let ground = try AccessGround()
    let token = try #require(try ground.request("/token").token)
    let response = try ground.request("/token", key: token, "-H", "X-API-Key: \(AccessGround.android)")
    #expect(response.status == 200 && response.lifetime == 7200)
    let foreign = try #require(try AccessGround().request("/token").token)
    let refused = try ground.request("/token", key: foreign, "-H", "X-API-Key: \(AccessGround.android)")
    #expect(refused.status == 401 && refused.errorDetail?.contains("several credentials") == true)
  }

  @Test("that is forged is refused as any wrong credential, with a sentence, and the address has to wait in the end")
  func forged() throws {
    let ground = try AccessGround("", ["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"])
    let token = try #require(try ground.request("/token", key: nil).token)
    #expect(try ground.request(AccessGround.album, key: token).status == 200)
    let parts = token.split(separator: ".").map(String.init)
    var statuses: Set<Int> = []
    for index in 0..<130 {
      let signature = String(repeating: "A", count: 83) + String(index % 10) + String(index / 10 % 10) + "A"
      let response = try ground.request(AccessGround.album, key: "\(parts[0]).\(parts[1]).\(signature)")
      statuses.insert(response.status)
      if index == 0 { #expect(response.errorDetail?.hasPrefix("The signature of the developer token") == true) }
    }
    #expect(statuses == [401, 429])
    #expect(try ground.request(AccessGround.album, key: token).status == 200, "a verified token never waits")
  }

  @Test("explained by the admin listener is a caller without a credential")
  func explained() throws {
    let ground = try AccessGround("", ["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"])
    let token = try #require(try ground.request("/token", key: nil).token)
    let content = #"{"path": "\#(AccessGround.album)", "credential": "\#(token)"}"#
    let response = try ground.server.admin("/access/explain", "-H", "Content-Type: application/json", "-d", content)
    #expect(response.json?["allowed"] == .bool(true) && response.json?["client"]?.string == "anonymous")
  }
}
