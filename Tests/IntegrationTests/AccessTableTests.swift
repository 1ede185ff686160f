import Bytes
import JSON
import TestSupport
import Testing

/// Callers × routes × outcomes, with the built binary.
@Suite("Access")
struct AccessTableTests {
  /// One row: the request and the expected response.
  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let options: [String]
    let target: String
    let status: Int
    let code: String?

    init(_ label: String, _ options: [String], _ target: String, _ status: Int, _ code: String? = nil) {
      (testDescription, self.options, self.target, self.status, self.code) = (label, options, target, status, code)
    }
  }

  private static func bearer(_ key: String) -> [String] { ["-H", "Authorization: Bearer \(key)"] }
  private static func apiKey(_ key: String) -> [String] { ["-H", "X-API-Key: \(key)"] }
  private static func from(_ origin: String) -> [String] { ["-H", "Origin: \(origin)"] }

  private static let android = bearer(AccessGround.android)
  private static let studio = bearer(AccessGround.studio)
  private static let studioPage = from("https://studio.example.com")
  private static let userToken = ["-H", "Music-User-Token: sandbox-user-token"]

  static let rows: [Row] = [
    Row("a key, for a token", android, "/token", 200),
    Row("a key in X-API-Key", apiKey(AccessGround.android), "/token", 200),
    Row("the scheme in other letters", ["-H", "authorization: bEaReR  \(AccessGround.android)"], "/token", 200),
    Row("the key that is to go", bearer(AccessGround.oldAndroid), "/token", 200),
    Row("a key, within the client's life", android, "/token?ttl=7200", 200),
    Row("a key, above the client's life", android, "/token?ttl=7201", 400, "invalid_parameter"),
    Row("a key, for an origin", android, "/token?origin=https://app.example.com", 403, "origin_not_allowed"),
    Row("a key, by POST", android + ["-d", "{\"ttl\": 600}"], "/token", 200),
    Row("a key, for the catalog", android, AccessGround.album, 200),
    Row("a key, for a storefront of others", android, "/v1/catalog/de/albums/1200868601", 404, "not_permitted"),
    Row("a key, for the storefronts", android, "/v1/storefronts", 200),
    Row("a key, for /v1/me", android + userToken, "/v1/me/library/songs", 404, "not_permitted"),
    Row("a key and whatever page", android + from("https://evil.example"), "/token", 200),

    Row("a page", from("https://app.example.com"), "/token", 200),
    Row("a page of the star's", from("https://pr-7.preview.example.com"), "/token", 200),
    Row("a page below the star's", from("https://a.b.preview.example.com"), "/token", 403, "origin_not_allowed"),
    Row("a page of the star's domain", from("https://preview.example.com"), "/token", 403, "origin_not_allowed"),
    Row("a foreign page", from("https://evil.example"), "/token", 403, "origin_not_allowed"),
    Row("a foreign page, for the catalog", from("https://evil.example"), AccessGround.album, 404, "origin_not_allowed"),
    Row("a page without an origin", from("null"), "/token", 403, "origin_not_allowed"),
    Row(
      "two origins", from("https://app.example.com") + from("https://app.example.com"), "/token", 403,
      "origin_not_allowed"),
    Row("a page, for its catalog", from("https://app.example.com"), AccessGround.album, 200),
    Row(
      "a page, for another's token", from("https://app.example.com"), "/token?origin=https://x.preview.example.com",
      403,
      "origin_not_allowed"),

    Row("key and page, for the catalog", studio + studioPage, AccessGround.album, 200),
    Row("key and page, for /v1/me", studio + studioPage + userToken, "/v1/me/library/songs", 200),
    Row("key and page, for a token", studio + studioPage, "/token", 403, "not_permitted"),
    Row("the key without its page", studio, AccessGround.album, 401, "missing_credentials"),
    Row("the page without its key", studioPage, AccessGround.album, 401, "missing_credentials"),
    Row(
      "the key and another page", studio + from("https://app.example.com"), AccessGround.album, 404,
      "origin_not_allowed"),

    Row("an unknown key", bearer("nobodys"), "/token", 401, "invalid_credentials"),
    Row(
      "an unknown key on an allowed page", bearer("nobodys") + from("https://app.example.com"), "/token", 401,
      "invalid_credentials"),
    Row("an unknown key, for the catalog", bearer("nobodys"), AccessGround.album, 401, "invalid_credentials"),
    // The server parses a query only for callers with permission.
    Row(
      "an unknown key, with a malformed query", bearer("nobodys"), "\(AccessGround.album)?a=%FF", 401,
      "invalid_credentials"),
    Row(
      "a key, for a storefront of others with a malformed query", android, "/v1/catalog/de/albums/1?a=%FF", 404,
      "not_permitted"),
    Row("a key, with a malformed query", android, "\(AccessGround.album)?a=%FF", 400, "malformed_request"),
    Row("a key without tokens, with a bad parameter", studio + studioPage, "/token?ttl=x", 403, "not_permitted"),
    Row("an empty key", ["-H", "Authorization: Bearer"], "/token", 401, "invalid_credentials"),
    Row("an empty field", ["-H", "X-API-Key;"], "/token", 401, "invalid_credentials"),
    Row("another scheme", ["-H", "Authorization: Basic YTpi"], "/token", 401, "invalid_credentials"),
    Row("one key twice", android + android, "/token", 401, "invalid_credentials"),
    Row("two keys", android + apiKey(AccessGround.android), "/token", 401, "invalid_credentials"),
    Row("a key's beginning", bearer(String(AccessGround.android.dropLast())), "/token", 401, "invalid_credentials"),
    Row("a key and more", bearer("\(AccessGround.android)x"), "/token", 401, "invalid_credentials"),
    Row(
      "a key's hash", bearer("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"), "/token", 401,
      "invalid_credentials"),
    Row("a JWT where nobody has one", bearer("eyJhbGciOiJub25lIn0.e30.AA"), "/token", 401, "invalid_credentials"),

    Row("nothing", [], "/token", 401, "missing_credentials"),
    Row("nothing, by POST", ["-X", "POST"], "/token", 401, "missing_credentials"),
    Row("nothing, for the catalog", [], AccessGround.album, 401, "missing_credentials"),
    Row("nothing, for /v1/me", userToken, "/v1/me/library/songs", 401, "missing_credentials"),

    Row("nothing, for health", [], "/healthz", 200),
    Row("a bad key, for health", bearer("nobodys"), "/healthz", 200),
    Row("a foreign page, for readiness", from("https://evil.example"), "/readyz", 200),
    Row("nothing, for the description", [], "/openapi.json", 200),
  ]

  @Test("is granted or refused as the table says, for every caller and route")
  func table() throws {
    let ground = try AccessGround()
    for row in Self.rows {
      let response = try ParsedResponse(curl: row.options + ["\(ground.server.url)\(row.target)"])
      #expect(response.status == row.status, "\(row.testDescription): \(response.text)")
      #expect(response.errorCode == row.code, "\(row.testDescription)")
      #expect((response["WWW-Authenticate"] != nil) == (row.status == 401), "\(row.testDescription)")
      if row.status != 200 { #expect(response["Cache-Control"] == "no-store", "\(row.testDescription)") }
    }
    #expect(ground.server.stop() == 0)
    // One audit line for each request, except those to open routes.
    let gated = Self.rows.filter { $0.target.hasPrefix("/token") || $0.target.hasPrefix("/v1/") }
    #expect(ground.auditLines.count == gated.count)
    for (line, row) in zip(ground.auditLines, gated) {
      #expect((line.outcome == "granted") == (row.status == 200), "\(row.testDescription): \(line)")
      #expect((line.reason == nil) == (row.status == 200), "\(row.testDescription): \(line)")
    }
    for secret in [AccessGround.android, AccessGround.oldAndroid, AccessGround.studio, "nobodys", "eyJ"] {
      #expect(!ground.server.log.contains(secret))
    }
  }

  @Test("of a page gives a token bound to the origin of this page")
  func binding() throws {
    let ground = try AccessGround()
    for origin in ["https://app.example.com", "https://pr-7.preview.example.com"] {
      let response = try ground.request("/token", key: nil, "-H", "Origin: \(origin)")
      #expect(response.json?["origin"] == .array([.string(ByteString(origin))]))
      #expect(response["Access-Control-Allow-Origin"] == origin)
    }
    #expect(try ground.request("/token").json?["origin"] == nil)
  }

  @Test("of a client gives tokens with the lifetime of this client")
  func life() throws {
    let ground = try AccessGround()
    #expect(try ground.request("/token").lifetime == 7200)
    let page = try ground.request("/token", key: nil, "-H", "Origin: https://app.example.com")
    #expect(page.lifetime == 43_200)
  }

  @Test("without permission for user data forwards no music user token")
  func userToken() throws {
    let ground = try AccessGround()
    let target = "/v1/catalog/us/songs/1200868616?relate=library"
    let refused = try ground.request(target, "-H", "Music-User-Token: sandbox-user-token")
    #expect(refused.status == 404 && refused.errorCode == "not_permitted")
    #expect(refused.errorDetail?.contains("Client android cannot have anything of a user's") == true)
    let other = try ground.request(
      target, key: AccessGround.studio, "-H", "Origin: https://studio.example.com", "-H",
      "Music-User-Token: sandbox-user-token")
    #expect(other.status == 200)
    #expect(try ground.catalog.emulator.requests().map { $0["music-user-token"] } == ["good"])
  }

  @Test("the error for a page without Origin, or with a developer token of others, says what to do")
  func hints() throws {
    let ground = try AccessGround(
      "{ id: 'idp', jwt: { issuer: 'i', audience: 'a', jwksURL: 'https://localhost:1/jwks' } }")
    #expect(try #require(try ground.request("/token", key: nil).errorDetail).contains("POST /token"))
    let token = try #require(try AccessGround().request("/token").token)
    let response = try ground.request(AccessGround.album, key: token)
    #expect(response.status == 401 && response.errorCode == "invalid_credentials")
    let detail = try #require(response.errorDetail)
    #expect(detail.hasPrefix("The signature of the developer token does not verify with this server's key. "))
    #expect(detail.contains("The credential is a developer token for Apple Music"))
  }
}
