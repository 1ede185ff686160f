import Glibc
import JSON
import TestSupport
import Testing

@Suite("The developer token for Apple")
struct DeveloperTokenSecrecyTests {
  @Test("has no origin, lives at most one hour, and appears in no response and no log")
  func secrecy() throws {
    let upstream = try RawUpstream([
      "broken": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
      "refused": "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
      "failed": "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n",
    ])
    let settings = ["LOG_LEVEL": "trace", "ACCESS_ANONYMOUS": "", "CATALOG_ME": "true"]
    let server = try upstream.serve(try Ground(), settings, ["--unsafe-allow-anonymous"])
    var written = ""
    for target in [
      "/v1/catalog/us/songs/1", "/v1/catalog/us/songs/1", "/v1/catalog/us/songs/broken", "/v1/catalog/us/songs/refused",
      "/v1/catalog/us/songs/failed", "/v1/me/storefront", "/v1/me/refused", "/v1/test", "/v1/nothing", "/token",
      "/token?ttl=3600", "/readyz", "/openapi.json", "/healthz",
    ] {
      for options in [[], ["-I"], ["-H", "Origin: https://app.example.com"], ["-X", "POST", "-d", "{}"]] {
        let response = try ParsedResponse(curl: options + ["\(server.url)\(target)"])
        written += response.text + response.fields.map { "\($0.name): \($0.value)\n" }.joined()
      }
    }
    for target in ["/readyz", "/metrics"] { written += try server.admin(target).text }
    #expect(server.stop() == 0)
    written += server.log + String(decoding: server.process.standardOutput, as: UTF8.self)

    let tokens = try Self.tokens(upstream)
    #expect(!tokens.isEmpty)
    for token in tokens {
      #expect(token.claims["origin"] == nil)
      #expect(token.claims.names == ["exp", "iat", "iss"])
      let issuedAt = try #require(token.claims["iat"]?.integer)
      #expect(try #require(token.claims["exp"]?.integer) - issuedAt <= 3600 + 60)
      #expect(!written.contains(token.signatureText))
    }
  }

  /// The tokens that the upstream has received, after the end of the server.
  private static func tokens(_ upstream: RawUpstream) throws -> [CompactToken] {
    upstream.process.signal(SIGKILL)
    var texts: Set<String> = []
    while let line = try upstream.process.line() {
      guard let request = JSONReader.read(Array(line.utf8)), let value = request.field("authorization") else {
        continue
      }
      guard value.hasPrefix("Bearer ") else { throw TestFailure("This is no bearer token: \(value)") }
      texts.insert(String(value.dropFirst(7)))
    }
    return try texts.map { try CompactToken($0) }
  }
}
