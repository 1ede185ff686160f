import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy

@Suite struct RequestFieldsTests {
  private let policy = HeaderPolicy(upstream: "https://api.music.apple.com")

  private let everything: KeyValuePairs = [
    "Accept": "text/html", "Accept-Encoding": "br", "Accept-Language": "de", "Authorization": "Bearer secret",
    "Cache-Control": "no-cache", "Cookie": "a=b", "Expect": "100-continue", "Forwarded": "for=1.2.3.4",
    "If-None-Match": "\"a\"", "If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT", "If-Match": "\"b\"",
    "Music-User-Token": "user", "Origin": "https://app.example.com", "Pragma": "no-cache", "Range": "bytes=0-1",
    "Referer": "https://app.example.com/", "TE": "trailers", "User-Agent": "curl", "Via": "1.1 other",
    "X-API-Key": "key", "X-Forwarded-For": "1.2.3.4", "X-Forwarded-Host": "evil.example",
    "X-HTTP-Method-Override": "DELETE", "X-Original-URL": "/v1/me", "X-Request-ID": "1",
    "Content-Type": "application/json", "Content-Encoding": "gzip",
  ]

  private func fields(
    _ target: String, _ lines: KeyValuePairs<String, String>, allowsMe: Bool = true, hasContent: Bool = false
  ) throws -> [String: String] {
    let target = try CatalogTarget(target, allowsMe: allowsMe)
    let fields = try policy.requestFields(for: target, from: CallerFields(lines), hasContent: hasContent)
    return fields.byName
  }

  private let own = [
    "accept": "application/json", "accept-encoding": "gzip", "user-agent": "musickit-token-server",
    "via": "1.1 musickit-token-server",
  ]

  @Test(
    "no field of the caller is forwarded with a request whose response may be shared",
    arguments: ["/v1/catalog/us/albums/1", "/v1/storefronts", "/v1/language/us/tag", "/v1/test"])
  func shared(target: String) throws {
    #expect(try fields(target, everything) == own)
    let caller = CallerFields(everything)
    _ = try policy.requestFields(for: CatalogTarget(target), from: caller, hasContent: true)
    #expect(caller.asked.isEmpty, "not even looked at")
  }

  @Test("the music user token is forwarded only with requests for personal data")
  func userToken() throws {
    let personal = "/v1/catalog/us/songs/1?relate=library"
    #expect(try fields(personal, everything) == own.merging(["music-user-token": "user"]) { $1 })
    #expect(throws: TargetRefusal.userTokensDisabled) { try fields(personal, everything, allowsMe: false) }
    #expect(try fields(personal, [:]) == own)
  }

  @Test("the older name of the music user token counts, and Apple gets the documented one")
  func olderName() throws {
    #expect(try fields("/v1/me/library", ["Media-User-Token": "a"]) == own.merging(["music-user-token": "a"]) { $1 })
    let both: KeyValuePairs = ["Music-User-Token": "a", "Media-User-Token": "a"]
    #expect(try fields("/v1/me/library", both) == own.merging(["music-user-token": "a"]) { $1 })
    let other: KeyValuePairs = ["Music-User-Token": "a", "Media-User-Token": "b"]
    #expect(throws: FieldRefusal.different("music-user-token", "media-user-token")) {
      try fields("/v1/me/library", other)
    }
    let named: KeyValuePairs = ["Media-User-Token": "a", "Connection": "media-user-token"]
    #expect(try fields("/v1/me/library", named) == own)
    for value in ["", "a b", "ä"] {
      let lines: KeyValuePairs = ["Media-User-Token": value]
      #expect(throws: FieldRefusal.malformed("media-user-token")) { try fields("/v1/me/library", lines) }
    }
  }

  @Test("below /v1/me, preconditions are forwarded, and with content the fields that describe the content")
  func me() throws {
    let preconditions = [
      "if-none-match": "\"a\"", "if-match": "\"b\"", "if-modified-since": "Sun, 06 Nov 1994 08:49:37 GMT",
    ]
    let expected = own.merging(preconditions) { $1 }.merging(["music-user-token": "user"]) { $1 }
    #expect(try fields("/v1/me/library", everything) == expected)
    let content = ["content-type": "application/json", "content-encoding": "gzip"]
    #expect(try fields("/v1/me/library", everything, hasContent: true) == expected.merging(content) { $1 })
  }

  @Test(
    "a field that Connection names is not forwarded",
    arguments: ["music-user-token", "Music-User-Token", "close, \tMUSIC-USER-TOKEN ,x", ",music-user-token"])
  func connection(options: String) throws {
    #expect(try fields("/v1/me/library", ["Connection": options, "Music-User-Token": "user"]) == own)
  }

  @Test("any other name in Connection changes nothing")
  func otherOptions() throws {
    let lines: KeyValuePairs = ["Connection": "keep-alive, x-music-user-token", "Music-User-Token": "user"]
    #expect(try fields("/v1/me/library", lines)["music-user-token"] == "user")
  }

  @Test(
    "a request with an ambiguous field is refused",
    arguments: RefusedFields.all)
  func refused(_ refused: RefusedFields) throws {
    let reason = refused.reason
    #expect(throws: reason) { try fields("/v1/me/library", refused.lines, hasContent: true) }
    #expect(reason.response == ErrorResponse(.malformedRequest, reason.detail))
    #expect(!reason.detail.contains("bytes 0-1/2"))
  }

  @Test("the longest music user token is forwarded")
  func longest() throws {
    let token = String(repeating: "a", count: HeaderPolicy.longestUserToken)
    #expect(try fields("/v1/me/library", ["Music-User-Token": token])["music-user-token"] == token)
  }

  @Test("the caller's Authorization is not forwarded, and no compression table stores either token")
  func credential() throws {
    let target = try CatalogTarget("/v1/me/library")
    let fields = try policy.requestFields(for: target, from: CallerFields(everything), hasContent: true)
    #expect(!fields.has("authorization"))
    let credential = HeaderPolicy.credential("d.e.f")
    #expect(credential[values: .authorization] == ["Bearer d.e.f"])
    let secrets = fields.lines.filter { fields.bytes.span.equalsIgnoringCase($0.name, "music-user-token") }
    #expect((secrets + credential.lines).map(\.isUnindexed) == [true, true])
  }

  @Test("the proxy requests an uncompressed response if gzip is not accepted")
  func identity() throws {
    let target = try CatalogTarget("/v1/storefronts")
    let fields = try policy.requestFields(for: target, from: CallerFields([:]), acceptsGzip: false)
    #expect(fields[.acceptEncoding] == "identity")
  }
}
