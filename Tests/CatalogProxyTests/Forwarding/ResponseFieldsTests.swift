import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy

@Suite struct ResponseFieldsTests {
  private let policy = HeaderPolicy(upstream: "https://api.music.apple.com")

  private func passed(_ lines: KeyValuePairs<String, String>) throws -> [String: String] {
    var upstream = FieldLines()
    for (name, value) in lines {
      upstream.append(HTTPField(name: try #require(HTTPField.Name(name)), value: value))
    }
    let fields = policy.responseFields(upstream)
    return fields.byName
  }

  @Test("only fields that describe the representation or that Apple's support needs are forwarded")
  func allowList() throws {
    let fields = try passed([
      "Content-Type": "application/json", "Content-Encoding": "gzip", "Content-Language": "en", "ETag": "\"a\"",
      "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After": "1", "Allow": "GET",
      "WWW-Authenticate": "Bearer", "X-Apple-Jingle-Correlation-Key": "KEY", "X-Apple-Request-UUID": "1-2",
      "Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*", "Strict-Transport-Security": "max-age=1",
      "Alt-Svc": "h3=\":443\"", "Server": "daiquiri", "Link": "</x>; rel=preload", "Accept-Ranges": "bytes",
      "Cache-Control": "max-age=60", "Age": "5", "Expires": "0", "Vary": "Accept", "Date": "now",
      "Proxy-Authenticate": "Basic", "Clear-Site-Data": "*", "Authorization": "Bearer a.b.c", "X-Cache": "HIT",
      "Content-Security-Policy": "x", "Proxy-Status": "x", "Cache-Status": "x", "X-Apple-Other": "x",
      "Trailer": "x", "TE": "trailers", "Upgrade": "h2c",
    ])
    #expect(
      fields == [
        "content-type": "application/json", "content-encoding": "gzip", "content-language": "en", "etag": "\"a\"",
        "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT", "retry-after": "1", "allow": "GET",
        "www-authenticate": "Bearer", "x-apple-jingle-correlation-key": "KEY", "x-apple-request-uuid": "1-2",
        "via": "2 musickit-token-server",
      ])
  }

  @Test("the cache gets the fields by which it judges a response as well, and no others")
  func forCache() {
    let judged: FieldLines = [
      .age: "5", .cacheControl: "max-age=60", .contentRange: "bytes 0-1/2", .date: "now", .expires: "0",
      .setCookie: "a=b", .vary: "Accept",
    ]
    var upstream: FieldLines = [.eTag: "\"a\"", .server: "daiquiri"]
    upstream.append(contentsOf: judged)
    var expected: FieldLines = [.eTag: "\"a\""]
    expected.append(contentsOf: judged)
    expected.append(HTTPField(name: .via, value: "2 musickit-token-server"))
    #expect(policy.responseFields(upstream, isForCache: true) == expected)
  }

  @Test("neither the forwarded fields nor those for the cache have room for the others", arguments: [false, true])
  func room(isForCache: Bool) {
    let upstream: FieldLines = [.server: String(repeating: "a", count: 20_000), .eTag: "\"a\""]
    let fields = policy.responseFields(upstream, isForCache: isForCache)
    #expect(fields == [.eTag: "\"a\"", .via: "2 musickit-token-server"])
    #expect(fields.bytes.capacity < 1000)
  }

  @Test("this server comes last in Via")
  func via() throws {
    #expect(try passed(["Via": "1.1 edge"])["via"] == "1.1 edge, 2 musickit-token-server")
    #expect(policy.responseFields([:], version: "1.1")[.via] == "1.1 musickit-token-server")
  }

  @Test(
    "a redirect within the upstream points to this server",
    arguments: [
      ("https://api.music.apple.com/v1/catalog/us?a=b#c", "/v1/catalog/us?a=b#c"),
      ("HTTPS://API.Music.Apple.com:443/v1/test", "/v1/test"), ("//api.music.apple.com/v1/test", "/v1/test"),
      ("https://api.music.apple.com/", "/"),
    ])
  func redirectWithin(location: String, localized: String) throws {
    #expect(try passed(["Location": location])["location"] == localized)
  }

  @Test(
    "any other redirect is forwarded unchanged",
    arguments: [
      "/v1/test", "test", "?a", "", "//evil.example/v1/test", "https://evil.example/https://api.music.apple.com/",
      "https://api.music.apple.com@evil.example/", "https://api.music.apple.com.evil.example/",
      "https://user@api.music.apple.com/", "http://api.music.apple.com/", "https://api.music.apple.com:8443/",
      "https://api.music.apple.com", "https://api.music.apple.com?a", "https://api.music.apple.com//evil.example/",
      "https://api.music.apple.com/\\evil.example/", "https://api.music.apple.com\\evil.example/",
      "https://api.music.apple.com//\u{301}evil.example/", "https://api.music.apple.com/\\\u{301}evil.example/",
      "path//api.music.apple.com/x", "javascript:alert(1)//api.music.apple.com/",
    ])
  func redirectElsewhere(location: String) throws {
    #expect(policy.origin.localized(location) == location)
  }

  @Test(
    "a redirect that is not a valid URI is dropped",
    arguments: [
      "/v1/a b", "/v1/\u{7F}a", "/v1/\u{80}", "/v1/\u{E9}", "/v1/\u{1}a", "https://api.music.apple.com/\u{301}",
      "/\t/evil.example",
    ])
  func redirectNowhere(location: String) throws {
    var upstream = FieldLines()
    upstream.append(HTTPField(name: .location, value: location))
    #expect(policy.responseFields(upstream)[.location] == nil)
    upstream = FieldLines()
    for path in ["/a", "/b"] { upstream.append(HTTPField(name: .location, value: path)) }
    #expect(policy.responseFields(upstream)[.location] == nil, "two are none")
  }

  @Test("the port of the upstream is part of its origin")
  func port() {
    let origin = UpstreamOrigin("http://127.0.0.1:9000")
    #expect(origin.localized("http://127.0.0.1:9000/v1") == "/v1")
    #expect(origin.localized("http://127.0.0.1/v1") == "http://127.0.0.1/v1")
    #expect(UpstreamOrigin("http://a.example:80").localized("http://a.example/v1") == "/v1")
    #expect(UpstreamOrigin("nonsense").localized("//nonsense/v1") == "//nonsense/v1")
  }
}
