import Bytes
import Cryptography
import HTTPMessages
import Testing

@testable import DeveloperToken

@Suite("The inspector")
struct InspectorTests {
  private static let now = Samples.now
  private static let header = #"{"alg":"ES256","kid":"ABC123DEFG","typ":"JWT"}"#

  private static func claims(
    iss: String? = #""TEAM123456""#, iat: String? = "\(now - 60)", exp: String? = "\(now + 3600)", more: String = ""
  ) -> String {
    let members = [("iss", iss), ("iat", iat), ("exp", exp)].compactMap { name, value in
      value.map { "\"\(name)\":\($0)" }
    }
    return "{" + members.joined(separator: ",") + more + "}"
  }

  /// A token with any header and claims and a valid signature.
  private static func token(_ header: String, _ claims: String, _ key: SigningKey) throws -> String {
    let input = Base64Text.encodeURL(Array(header.utf8)) + "." + Base64Text.encodeURL(Array(claims.utf8))
    return try input + "." + Base64Text.encodeURL(key.signature(of: Array(input.utf8)).bytes)
  }

  private func rules(_ inspection: Inspection, _ verdict: Check.Verdict) -> [String] {
    inspection.checks.filter { $0.verdict == verdict }.map(\.rule)
  }

  static let broken: [(label: String, header: String, claims: String, rule: String, says: String)] = [
    ("alg none", #"{"alg":"none","kid":"ABC123DEFG"}"#, claims(), "header.alg", "only ES256"),
    ("alg HS256", #"{"alg":"HS256","kid":"ABC123DEFG"}"#, claims(), "header.alg", "only ES256"),
    ("no alg", #"{"kid":"ABC123DEFG"}"#, claims(), "header.alg", "no alg"),
    ("no kid", #"{"alg":"ES256"}"#, claims(), "header.kid", "no kid"),
    ("a short kid", #"{"alg":"ES256","kid":"ABC"}"#, claims(), "header.kid", "exactly 10"),
    ("another kid", #"{"alg":"ES256","kid":"ZZZ123DEFG"}"#, claims(), "header.kid.key", "ABC123DEFG"),
    (
      "crit", #"{"alg":"ES256","kid":"ABC123DEFG","crit":["exp"],"exp":1}"#, claims(), "header.crit", "extensions"
    ),
    ("two kids", #"{"alg":"ES256","kid":"ABC123DEFG","kid":"ABC123DEFG"}"#, claims(), "header.members", "“kid”"),
    ("a header that is no object", "[1]", claims(), "header", "not a JSON object"),
    ("a header with a comma too many", #"{"alg":"ES256",}"#, claims(), "header", "not a JSON object"),
    ("claims that are no object", header, "1", "claims", "not a JSON object"),
    ("claims cut off", header, #"{"iss":"TEAM"#, "claims", "not a JSON object"),
    ("no iss", header, claims(iss: nil), "claims.iss", "no iss"),
    ("a short iss", header, claims(iss: "\"ABC\""), "claims.iss", "exactly 10"),
    ("the key ID as iss", header, claims(iss: "\"ABC123DEFG\""), "claims.iss", "both"),
    ("no iat", header, claims(iat: nil), "claims.iat", "no iat"),
    ("no exp", header, claims(exp: nil), "claims.exp", "no exp"),
    ("iat as a string", header, claims(iat: "\"\(now)\""), "claims.iat", "a string"),
    ("exp as null", header, claims(exp: "null"), "claims.exp", "not a number"),
    ("exp with a fraction", header, claims(exp: "\(now + 60).5"), "claims.exp", "whole number"),
    ("exp with an exponent", header, claims(exp: "1.8e9"), "claims.exp", "whole number"),
    ("iat in milliseconds", header, claims(iat: "\(now)000"), "claims.iat", "milliseconds"),
    ("exp in milliseconds", header, claims(exp: "\(now + 60)000"), "claims.exp", "milliseconds"),
    ("an exp beyond numbers", header, claims(exp: "99999999999999999999999"), "claims.exp", "whole number"),
    ("an iat below numbers", header, claims(iat: "-9223372036854775808"), "claims.iat", "before 1970"),
    ("iat in the future", header, claims(iat: "\(now + 34)"), "claims.iat.future", "34 s in the future"),
    ("nbf in the future", header, claims(more: #","nbf":\#(now + 1)"#), "claims.nbf.future", "1 s in the future"),
    ("nbf as a string", header, claims(more: #","nbf":"\#(now)""#), "claims.nbf", "a string"),
    ("exp in the past", header, claims(exp: "\(now - 5)"), "claims.exp.past", "expired 5 s ago"),
    ("exp now", header, claims(exp: "\(now)"), "claims.exp.past", "expired 0 s ago"),
    (
      "exp too far from now", header, claims(iat: "\(now)", exp: "\(now + 15_777_001)"), "claims.exp.cap.now",
      "15777000"
    ),
    ("exp too far from iat", header, claims(exp: "\(now + 15_777_000)"), "claims.exp.cap.iat", "15777000"),
    ("exp before iat", header, claims(iat: "\(now)", exp: "\(now - 1)"), "claims.exp.order", "before the iat"),
    ("two exp", header, claims(more: #","exp":1"#), "claims.members", "“exp”"),
    ("aud", header, claims(more: #","aud":"appstoreconnect-v1""#), "claims.aud", "other services"),
    ("sub", header, claims(more: #","sub":"x""#), "claims.sub", "other services"),
    ("root_https_origin", header, claims(more: #","root_https_origin":[]"#), "claims.root_https_origin", "web player"),
    ("origin as a string", header, claims(more: #","origin":"https://a.example""#), "claims.origin", "is a string"),
    ("origin as an object", header, claims(more: #","origin":{}"#), "claims.origin", "not an array"),
    ("no origins", header, claims(more: #","origin":[]"#), "claims.origin", "allows no origin"),
    (
      "a number among origins", header, claims(more: #","origin":["https://a.example",1]"#), "claims.origin",
      "not strings"
    ),
    ("an origin with a path", header, claims(more: #","origin":["https://a.example/x"]"#), "claims.origin", "path"),
    (
      "an origin with a slash", header, claims(more: #","origin":["https://a.example/"]"#), "claims.origin",
      "never equal"
    ),
    (
      "an origin in capitals", header, claims(more: #","origin":["https://A.example"]"#), "claims.origin", "never equal"
    ),
    ("a wildcard", header, claims(more: #","origin":["https://*.example"]"#), "claims.origin", "wildcard"),
    ("a bare host", header, claims(more: #","origin":["a.example"]"#), "claims.origin", "no scheme"),
    ("another origin", header, claims(more: #","origin":["https://b.example"]"#), "claims.origin.match", "not one of"),
  ]

  @Test("explains each broken rule", arguments: broken)
  func explains(label: String, header: String, claims: String, rule: String, says: String) throws {
    let key = try Samples.key()
    let inspector = Inspector(key: key.verificationKey, origin: try Origin("https://a.example"), now: Self.now)
    let inspection = inspector.inspect(try Self.token(header, claims, key))
    #expect(!inspection.isAcceptable)
    let check = try #require(inspection.checks.first { $0.rule == rule && $0.verdict == .fail })
    #expect(check.explanation.contains(says))
  }

  @Test("accepts a token at the limits without a warning")
  func limits() throws {
    let key = try Samples.key()
    for claims in [
      Self.claims(iat: "\(Self.now)", exp: "\(Self.now + 15_777_000)"), Self.claims(exp: "\(Self.now + 1)"),
      Self.claims(more: #","origin":["https://a.example"]"#),
    ] {
      let inspection = Inspector(key: key.verificationKey, now: Self.now).inspect(
        try Self.token(Self.header, claims, key))
      #expect(rules(inspection, .fail).isEmpty && rules(inspection, .warning).isEmpty)
    }
  }

  @Test("reports the header and claims of a token")
  func facts() throws {
    let key = try Samples.key()
    let token = try Self.token(Self.header, Self.claims(more: #","origin":["https:\/\/\u0061.example"]"#), key)
    let inspection = Inspector(now: Self.now).inspect(token)
    #expect(inspection.algorithm == "ES256" && inspection.keyID == "ABC123DEFG" && inspection.issuer == "TEAM123456")
    #expect(inspection.issuedAt == Self.now - 60 && inspection.expiresAt == Self.now + 3600)
    #expect(inspection.origins == ["https://a.example"])
    #expect(rules(inspection, .unknown) == ["claims.origin.match", "signature"])
  }

  static let oddities: [(label: String, header: String, claims: String, rule: String)] = [
    ("another typ", #"{"alg":"ES256","kid":"ABC123DEFG","typ":"at+jwt"}"#, claims(), "header.typ"),
    ("nbf now", header, claims(more: #","nbf":\#(now)"#), "claims.unknown"),
    ("unlisted claims", header, claims(more: #","jti":"\u001b[31m""#), "claims.unknown"),
  ]

  @Test("warns about oddities that Apple accepts", arguments: oddities)
  func warns(label: String, header: String, claims: String, rule: String) throws {
    let key = try Samples.key()
    let inspection = Inspector(key: key.verificationKey, now: Self.now).inspect(try Self.token(header, claims, key))
    #expect(inspection.isAcceptable && rules(inspection, .warning) == [rule])
  }

  @Test("does not require typ")
  func noType() throws {
    let key = try Samples.key()
    let token = try Self.token(#"{"alg":"ES256","kid":"ABC123DEFG"}"#, Self.claims(), key)
    #expect(rules(Inspector(now: Self.now).inspect(token), .warning).isEmpty)
  }

  static let wrappings: [(label: String, before: String, after: String)] = [
    ("Bearer", "Bearer ", ""), ("bearer", "bearer  ", ""), ("double quotes", "\"", "\""), ("single quotes", "'", "'"),
    ("spaces", "  ", " "), ("a quoted header value", "\"Bearer ", "\"\r\n"), ("lines before", "\n\n", "\n"),
  ]

  @Test("removes text around the token with a warning", arguments: wrappings)
  func wrapping(label: String, before: String, after: String) throws {
    let key = try Samples.key()
    let token = before + (try Self.token(Self.header, Self.claims(), key)) + after
    let inspection = Inspector(key: key.verificationKey, now: Self.now).inspect(token)
    #expect(inspection.isAcceptable && rules(inspection, .warning) == ["form.wrapping"])
  }

  @Test("ignores a line end after the token without a warning")
  func lineEnd() throws {
    let token = try Self.token(Self.header, Self.claims(), Samples.key()) + "\n"
    #expect(rules(Inspector(now: Self.now).inspect(token), .warning).isEmpty)
  }

  static let malformed: [(text: String, says: String)] = [
    ("", "empty"), (" \n", "empty"), ("Bearer ", "1 part"), ("Bearer  ", "1 part"), ("Bearer \"x\"", "1 part"),
    ("a", "1 part"), ("a.b", "2 parts"),
    ("a.b.c.d", "4 parts"),
    ("e30=.e30.AAAA", "padded"), ("e30.e30.A+/A", "signature part"), ("é.e30.AA", "header part"),
    ("e30.e.AA", "claims part"),
    (String(repeating: "a", count: 16_385), "longer than"), ("..", "not a JSON object"),
  ]

  @Test("explains why a text is not a token", arguments: malformed)
  func refuses(text: String, says: String) {
    let inspection = Inspector(now: Self.now).inspect(text)
    #expect(!inspection.isAcceptable)
    #expect(inspection.checks.contains { $0.verdict == .fail && $0.explanation.contains(says) })
  }

  @Test("distinguishes a DER signature from an invalid signature")
  func derSignature() throws {
    let key = try Samples.key()
    let token = try Self.token(Self.header, Self.claims(), key)
    let parts = token.split(separator: ".").map(String.init)
    let raw = try #require(ECDSASignature(raw: Base64Text.decode(parts[2])))
    let der = "\(parts[0]).\(parts[1])." + Base64Text.encodeURL(raw.der)
    let inspection = Inspector(key: key.verificationKey, now: Self.now).inspect(der)
    #expect(rules(inspection, .fail) == ["signature.form"])
    #expect(inspection.checks.contains { $0.rule == "signature" && $0.explanation.contains("only its form") })
    let short = Inspector(key: key.verificationKey, now: Self.now).inspect("\(parts[0]).\(parts[1]).AAAA")
    #expect(short.checks.contains { $0.explanation.contains("3 bytes") })
  }

  @Test("refuses the signature of another key, and changed claims")
  func wrongSignature() throws {
    let (key, other) = try (Samples.key(), Samples.key())
    let token = try Self.token(Self.header, Self.claims(), key)
    #expect(rules(Inspector(key: other.verificationKey, now: Self.now).inspect(token), .fail) == ["signature"])
    let changed = try Self.token(Self.header, Self.claims(exp: "\(Self.now + 9)"), key).split(separator: ".")
    let mixed = changed[0] + "." + changed[1] + "." + token.split(separator: ".")[2]
    #expect(rules(Inspector(key: key.verificationKey, now: Self.now).inspect(String(mixed)), .fail) == ["signature"])
  }

  @Test("refuses each proper prefix of a token and prints no control characters")
  func everyPrefix() throws {
    let key = try Samples.key()
    let claims = Self.claims(iss: #""\u001b[2J\u0007""#, more: #","origin":["\u001b"],"\n":1"#)
    let inspector = Inspector(key: key.verificationKey, now: Self.now)
    let token = try Self.token(Self.header, claims, key)
    for count in 0..<token.count {
      let inspection = inspector.inspect(String(token.prefix(count)))
      #expect(!inspection.isAcceptable)
    }
    for check in inspector.inspect(token).checks {
      #expect(check.explanation.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F })
    }
  }
}
