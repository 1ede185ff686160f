import DeveloperToken
import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import MusicSandbox

/// Apple's rules for developer tokens, each broken by one test token.
@Suite struct TokenTests {
  private static let now = Ground.now
  private static let header = #"{"alg":"ES256","kid":"ABC123DEFG"}"#

  @Test("the emulator accepts a valid token")
  func good() throws {
    let ground = try Ground()
    #expect(ground.respond("/v1/test").status == 200)
    let exact = try Self.token(claims: Self.claims(exp: Self.now + 15_777_000, iat: Self.now))
    #expect(ground.respond("/v1/test", fields: [Self.bearer(exact)]).status == 200, "iat and exp at their limits")
    #expect(ground.respond("/v1/test", fields: [field("authorization", "bearer \(exact)")]).status == 200)
  }

  struct BrokenRule: Sendable, CustomTestStringConvertible {
    let name: String
    let header: String
    let claims: String
    var testDescription: String { name }

    init(_ name: String, header: String = TokenTests.header, claims: String) {
      (self.name, self.header, self.claims) = (name, header, claims)
    }
  }

  @Test(
    "a token that breaks one rule gets 401 with an empty body",
    arguments: [
      BrokenRule("alg none", header: #"{"alg":"none","kid":"ABC123DEFG"}"#, claims: claims()),
      BrokenRule("alg RS256", header: #"{"alg":"RS256","kid":"ABC123DEFG"}"#, claims: claims()),
      BrokenRule("no alg", header: #"{"kid":"ABC123DEFG"}"#, claims: claims()),
      BrokenRule("crit", header: #"{"alg":"ES256","kid":"ABC123DEFG","crit":["b64"]}"#, claims: claims()),
      BrokenRule("not yet valid", claims: claims(more: #","nbf":\#(now + 1)"#)),
      BrokenRule("unknown kid", header: #"{"alg":"ES256","kid":"XYZ123DEFG"}"#, claims: claims()),
      BrokenRule("no kid", header: #"{"alg":"ES256"}"#, claims: claims()),
      BrokenRule("another team", claims: claims(iss: "TEAM654321")),
      BrokenRule("the key's ID as team", claims: claims(iss: "ABC123DEFG")),
      BrokenRule("issued in the future", claims: claims(exp: now + 60, iat: now + 1)),
      BrokenRule("expired just now", claims: claims(exp: now)),
      BrokenRule("past the cap", claims: claims(exp: now + 15_777_001, iat: now)),
      BrokenRule("past the cap from iat", claims: claims(exp: now + 15_777_000, iat: now - 1)),
      BrokenRule("milliseconds", claims: claims(exp: now * 1000, iat: now * 1000)),
      BrokenRule("times as strings", claims: #"{"iss":"TEAM123456","iat":"\#(now)","exp":"\#(now + 60)"}"#),
      BrokenRule("no exp", claims: #"{"iss":"TEAM123456","iat":\#(now)}"#),
      BrokenRule("no iat", claims: #"{"iss":"TEAM123456","exp":\#(now + 60)}"#),
      BrokenRule("an empty origin claim", claims: claims(origin: "[]")),
      BrokenRule("an origin claim that is a string", claims: claims(origin: #""https://app.example.com""#)),
      BrokenRule("an audience", claims: claims(more: #","aud":"https://appleid.apple.com""#)),
      BrokenRule("exp twice", claims: claims(more: #","exp":\#(now + 60)"#)),
      BrokenRule("claims that are no object", claims: "[]"),
    ])
  func brokenRule(rule: BrokenRule) throws {
    let ground = try Ground()
    let token = try Self.token(header: rule.header, claims: rule.claims)
    Self.expectRefused(ground.respond("/v1/catalog/us/albums/1200868601", fields: [Self.bearer(token)]))
  }

  @Test("a token with a wrong, missing or malformed signature gets 401 with an empty body")
  func signature() throws {
    let ground = try Ground()
    let other = try SigningKey.generate(keyID: try KeyID("ABC123DEFG"))
    let good = try Self.token(claims: Self.claims())
    let parts = good.split(separator: ".")
    let changed = try Self.token(claims: Self.claims(exp: Self.now + 61)).split(separator: ".")
    for token in [
      try Self.token(claims: Self.claims(), key: other), "\(parts[0]).\(parts[1]).", "\(parts[0]).\(parts[1])",
      "\(parts[0]).\(changed[1]).\(parts[2])", "\(good)A", "\(good)=", " \(good)", "\"\(good)\"", "",
    ] {
      Self.expectRefused(ground.respond("/v1/test", fields: [Self.bearer(token)]))
    }
    #expect(ground.respond("/v1/test", fields: [Self.bearer(good)]).status == 200)
  }

  @Test("a request without exactly one Bearer token gets 401 with an empty body")
  func authorization() throws {
    let ground = try Ground()
    let good = Self.bearer(ground.token)
    for fields in [[good, good], [field("Authorization", "Basic \(ground.token)")]] {
      Self.expectRefused(ground.respond("/v1/test", fields: fields))
    }
    Self.expectRefused(ground.sandbox.respond(SandboxRequest("GET", "/v1/test")))
    Self.expectRefused(try Ground { $0.keys = [] }.respond("/v1/test"))
  }

  @Test(
    "a token with origins is valid only for exactly these origins",
    arguments: [
      ("https://app.example.com", 200), ("http://localhost:3000", 200), ("https://APP.example.com", 401),
      ("https://app.example.com/", 401), ("https://evil.example.com", 401), ("null", 401), (nil, 401),
    ])
  func origin(origin: String?, status: Int) throws {
    let ground = try Ground()
    let token = try Self.token(claims: Self.claims(origin: #"["https://app.example.com","http://localhost:3000"]"#))
    var fields = [Self.bearer(token)]
    if let origin { fields.append(field("Origin", origin)) }
    #expect(ground.respond("/v1/test", fields: fields).status == status)
    // The same token again, with its signature in the cache.
    #expect(ground.respond("/v1/test", fields: fields).status == status)
  }

  @Test("a token without origins is valid for every origin")
  func noOrigin() throws {
    #expect(try Ground().respond("/v1/test", fields: [field("Origin", "https://a.example")]).status == 200)
  }

  @Test("a cached token is refused after its expiry and before its issue time")
  func remembered() throws {
    let ground = try Ground()
    let token = Self.bearer(try Self.token(claims: Self.claims(exp: Self.now + 15_777_000, iat: Self.now)))
    for (skew, status) in [(0, 200), (-1, 401), (15_776_999, 200), (15_777_000, 401), (0, 200)] {
      _ = ground.respond("/sandbox/faults", "PUT", content: #"{"clockSkew":\#(skew)}"#)
      #expect(ground.respond("/v1/test", fields: [token]).status == status, "skew \(skew)")
    }
  }

  @Test("an emulator with a slow clock refuses a fresh token and shows its time in Date")
  func skew() throws {
    let ground = try Ground { $0.clockSkew = -120 }
    let response = ground.respond("/v1/test")
    Self.expectRefused(response)
    #expect(response.fields.single("date") == HTTPDate.text(Ground.now - 120))
    #expect(try Ground().respond("/v1/test").fields.single("date") == nil)
  }

  // MARK: -

  private static func expectRefused(_ response: SandboxResponse) {
    #expect(response.status == 401)
    #expect(response.content == [])
  }

  private static func bearer(_ token: String) -> HTTPField { field("Authorization", "Bearer \(token)") }

  private static func claims(
    iss: String = "TEAM123456", exp: Int = now + 3600, iat: Int = now - 60, origin: String? = nil, more: String = ""
  ) -> String {
    let origin = origin.map { #","origin":\#($0)"# } ?? ""
    return #"{"iss":"\#(iss)","iat":\#(iat),"exp":\#(exp)\#(origin)\#(more)}"#
  }

  /// A correctly signed token with any header and claims.
  private static func token(
    header: String = header, claims: String, key: SigningKey? = nil
  ) throws -> String {
    let input = base64URL(Array(header.utf8)) + "." + base64URL(Array(claims.utf8))
    var signature: [UInt8] = []
    try (key ?? Ground.key.get()).sign(Array(input.utf8).span, appendingTo: &signature)
    return input + "." + base64URL(signature)
  }

  private static func base64URL(_ bytes: [UInt8]) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    var text = ""
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start...].prefix(3)
      let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
      for index in 0...group.count { text.append(alphabet[bits >> (18 - 6 * index) & 63]) }
    }
    return text
  }
}
