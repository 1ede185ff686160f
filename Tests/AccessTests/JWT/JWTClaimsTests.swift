import Bytes
import Testing

@testable import Access

@Suite("The claims of a JWT")
struct JWTClaimsTests {
  /// Claims of a correctly signed token, and the refusal of the token; nil if the token is accepted.
  struct Case: Sendable, CustomTestStringConvertible {
    let label: String
    let claims: String
    let refusal: JWTRefusal?

    /// The valid claims with `changes`; an empty value removes a claim.
    init(_ label: String, _ changes: [String: String], _ refusal: JWTRefusal?) {
      var claims = [
        "iss": "\"\(JWTSamples.issuer)\"", "aud": #""music""#, "sub": #""user-1""#, "iat": "1794999990",
        "exp": "1795000300",
      ]
      claims.merge(changes) { $1 }
      let members = claims.filter { !$0.value.isEmpty }.map { "\"\($0.key)\":\($0.value)" }
      self.init(label, text: "{\(members.joined(separator: ","))}", refusal)
    }

    init(_ label: String, text: String, _ refusal: JWTRefusal?) {
      (self.label, claims, self.refusal) = (label, text, refusal)
    }

    var testDescription: String { label }
  }

  static let issuers = [
    Case("as they should be", [:], nil),
    Case("iss without the slash", ["iss": #""https://id.example.com""#], .wrongIssuer),
    Case("iss in capitals", ["iss": #""https://ID.example.com/""#], .wrongIssuer),
    Case("iss and more", ["iss": #""https://id.example.com/evil""#], .wrongIssuer),
    Case("iss with a NUL", ["iss": #""https://id.example.com/\u0000""#], .wrongIssuer),
    Case("iss escaped, the same", ["iss": #""https:\/\/id.example.com\/""#], nil),
    Case("no iss", ["iss": ""], .wrongIssuer),
    Case("iss empty", ["iss": #""""#], .wrongIssuer),
    Case("iss null", ["iss": "null"], .invalidClaim(.issuer)),
    Case("iss in an array", ["iss": #"["https://id.example.com/"]"#], .invalidClaim(.issuer)),
    Case("iss an object", ["iss": "{}"], .invalidClaim(.issuer)),
  ]

  static let audiences = [
    Case("aud the other one of ours", ["aud": #""radio""#], nil),
    Case("aud an array with ours", ["aud": #"["video","music"]"#], nil),
    Case("aud another's", ["aud": #""video""#], .wrongAudience),
    Case("aud a prefix of ours", ["aud": #""musi""#], .wrongAudience),
    Case("aud with ours in it", ["aud": #""music radio""#], .wrongAudience),
    Case("aud in capitals", ["aud": #""Music""#], .wrongAudience),
    Case("aud an array of others", ["aud": #"["video"]"#], .wrongAudience),
    Case("aud an empty array", ["aud": "[]"], .wrongAudience),
    Case("aud empty", ["aud": #""""#], .wrongAudience),
    Case("no aud", ["aud": ""], .wrongAudience),
    Case("aud null", ["aud": "null"], .invalidClaim(.audience)),
    Case("aud true", ["aud": "true"], .invalidClaim(.audience)),
    Case("aud an object", ["aud": #"{"music":true}"#], .invalidClaim(.audience)),
    Case("aud with a number beside ours", ["aud": #"["music",1]"#], .invalidClaim(.audience)),
    Case("aud in an array of arrays", ["aud": #"[["music"]]"#], .invalidClaim(.audience)),
  ]

  static let times = [
    Case("exp a minute ago, the last second of leeway", ["exp": "1794999941"], nil),
    Case("exp when the leeway is over", ["exp": "1794999940"], .expired(seconds: 60)),
    Case("exp long ago", ["exp": "1"], .expired(seconds: 1_794_999_999)),
    Case("exp with a fraction", ["exp": "1795000300.75"], nil),
    Case("exp with a fraction, past", ["exp": "1794999940.999"], .expired(seconds: 60)),
    Case("exp as a power", ["exp": "1.7950003e9"], nil),
    Case("exp at the end of 9999", ["exp": "253402300799"], nil),
    Case("no exp", ["exp": ""], .noExpiry),
    Case("exp null", ["exp": "null"], .invalidClaim(.expiry)),
    Case("exp a string", ["exp": #""1795000300""#], .invalidClaim(.expiry)),
    Case("exp in an array", ["exp": "[1795000300]"], .invalidClaim(.expiry)),
    Case("exp true", ["exp": "true"], .invalidClaim(.expiry)),
    Case("exp negative", ["exp": "-1"], .invalidClaim(.expiry)),
    Case("exp minus zero", ["exp": "-0"], .expired(seconds: JWTSamples.now)),
    Case("exp in milliseconds", ["exp": "1795000300000"], .invalidClaim(.expiry)),
    Case("exp 1e400", ["exp": "1e400"], .invalidClaim(.expiry)),
    Case("exp 1e-400", ["exp": "1e-400"], .expired(seconds: JWTSamples.now)),
    Case("exp that overflows 64 bits", ["exp": "9223372036854775808"], .invalidClaim(.expiry)),
    Case("exp of a hundred digits", ["exp": String(repeating: "9", count: 100)], .invalidClaim(.expiry)),
    Case(
      "exp with a long fraction", ["exp": "1795000300." + String(repeating: "0", count: 99)], .invalidClaim(.expiry)),
    Case("exp NaN, no JSON", ["exp": "NaN"], .malformed(.claims)),
    Case("exp hexadecimal, no JSON", ["exp": "0x6AFD8EAC"], .malformed(.claims)),
    Case("exp with leading zeros, no JSON", ["exp": "01795000300"], .malformed(.claims)),

    Case("nbf within a minute", ["nbf": "1795000060"], nil),
    Case("nbf in more than a minute", ["nbf": "1795000061"], .notYetValid(seconds: 61)),
    Case("nbf with a fraction", ["nbf": "1795000060.1"], .notYetValid(seconds: 61)),
    Case("nbf a string", ["nbf": #""0""#], .invalidClaim(.notBefore)),
    Case("nbf null", ["nbf": "null"], .invalidClaim(.notBefore)),
    Case("iat within a minute", ["iat": "1795000060"], nil),
    Case("iat in more than a minute", ["iat": "1795000061"], .issuedInFuture(seconds: 61)),
    Case("iat in a thousand years", ["iat": "33000000000"], .issuedInFuture(seconds: 31_205_000_000)),
    Case("iat negative", ["iat": "-1"], .invalidClaim(.issuedAt)),
    Case("no iat", ["iat": ""], nil),
  ]

  static let others = [
    Case("no sub", ["sub": ""], nil),
    Case("sub a number", ["sub": "1"], .invalidClaim(.subject)),
    Case("sub null", ["sub": "null"], .invalidClaim(.subject)),
    Case("sub an array", ["sub": #"["user-1"]"#], .invalidClaim(.subject)),
    Case("sub empty", ["sub": #""""#], .invalidClaim(.subject)),
    Case("sub of 255 bytes", ["sub": "\"\(String(repeating: "s", count: 255))\""], nil),
    Case("sub of 256 bytes", ["sub": "\"\(String(repeating: "s", count: 256))\""], .invalidClaim(.subject)),
    Case(
      "a claim twice", text: #"{"iss":"https://evil.example/","# + JWTSamples.claims.dropFirst(),
      .malformed(.repeatedMember)),
    Case("exp twice", text: JWTSamples.claims.dropLast() + #","exp":1795000301}"#, .malformed(.repeatedMember)),
    Case(
      "exp twice, once escaped", text: JWTSamples.claims.dropLast() + #","\u0065xp":1795000301}"#,
      .malformed(.repeatedMember)),
    Case("an array", text: "[\(JWTSamples.claims)]", .malformed(.claims)),
    Case("another JWT", text: "eyJhbGciOiJub25lIn0.e30.", .malformed(.claims)),
    Case("nothing", text: "", .malformed(.claims)),
    Case("something behind", text: JWTSamples.claims + "x", .malformed(.claims)),
    Case("not closed", text: String(JWTSamples.claims.dropLast()), .malformed(.claims)),
    Case("deeply nested", ["x": String(repeating: "[", count: 9000)], .malformed(.claims)),
  ]

  @Test("are checked against the rules", arguments: issuers + audiences + times + others)
  func refused(_ example: Case) throws {
    let token = try JWTSamples.token(claims: example.claims)
    #expect(try verdict(on: token).refusal == example.refusal)
    let jwt = Result { () throws(JWTRefusal) in
      try JWT(compact: Array(token.utf8).span).check(JWTSamples.rules, now: JWTSamples.now)
    }
    if case .failure(let refusal) = jwt { #expect(refusal == example.refusal) } else { #expect(example.refusal == nil) }
  }

  @Test("of a valid token are returned")
  func told() throws {
    let claims = #"{"iss":"https://id.example.com/","aud":["music"],"exp":1795000300.9,"sub":"auth0|é"}"#
    let expected = VerifiedJWT(subject: "auth0|é", expiresAt: 1_795_000_300, keyID: "ec")
    #expect(try verdict(on: JWTSamples.token(claims: claims)).get() == expected)
  }

  @Test("are compared byte by byte: the Kelvin sign is not K, although Unicode treats them as canonically equivalent")
  func noNormalization() throws {
    let rules = JWTRules(
      issuer: "K", audiences: ["K"], requiredClaims: [.init(name: "K", values: ["K"])], algorithms: [.es256])
    let kelvin = #""\u212A""#
    for (iss, aud, name, value, refusal) in [
      ("\"K\"", "\"K\"", "\"K\"", "\"K\"", nil), (kelvin, "\"K\"", "\"K\"", "\"K\"", JWTRefusal.wrongIssuer),
      ("\"K\"", kelvin, "\"K\"", "\"K\"", .wrongAudience), ("\"K\"", "\"K\"", kelvin, "\"K\"", .requiredClaim("K")),
      ("\"K\"", "\"K\"", "\"K\"", kelvin, .requiredClaim("K")),
    ] as [(String, String, String, String, JWTRefusal?)] {
      let claims = "{\"iss\":\(iss),\"aud\":\(aud),\(name):\(value),\"exp\":1795000300}"
      #expect(try verdict(on: JWTSamples.token(claims: claims), rules).refusal == refusal, "\(claims)")
    }
  }

  static let required: [(claim: String, isEnough: Bool)] = [
    (#""role":"admin""#, true),
    (#""role":"editor""#, true),
    (#""role":["guest","admin"]"#, true),
    (#""role":["guest"]"#, false),
    (#""role":[]"#, false),
    (#""role":"not admin""#, false),
    (#""role":"Admin""#, false),
    (#""role":["admin",1]"#, false),
    (#""role":true"#, false),
    (#""role":null"#, false),
    (#""role":{"admin":true}"#, false),
    (#""roles":"admin""#, false),
  ]

  @Test("that the rules require must have one of the allowed values", arguments: required)
  func requiredClaims(_ example: (claim: String, isEnough: Bool)) throws {
    var rules = JWTSamples.rules
    rules.requiredClaims = [.init(name: "role", values: ["admin", "editor"])]
    let claims = "\(JWTSamples.claims.dropLast()),\(example.claim)}"
    let refusal = try verdict(on: JWTSamples.token(claims: claims), rules).refusal
    #expect(refusal == (example.isEnough ? nil : .requiredClaim("role")))
  }

  @Test("that the rules require must all be present")
  func allRequiredClaims() throws {
    var rules = JWTSamples.rules
    rules.requiredClaims = [.init(name: "a", values: ["1"]), .init(name: "b", values: ["2"])]
    let claims = JWTSamples.claims.dropLast() + #","a":"1"}"#
    #expect(try verdict(on: JWTSamples.token(claims: String(claims)), rules).refusal == .requiredClaim("b"))
  }

  @Test("scope and scp are lists of words", arguments: ["scope", "scp"])
  func scopes(name: String) throws {
    var rules = JWTSamples.rules
    rules.requiredClaims = [.init(name: name, values: ["music.read"])]
    for (value, isEnough) in [
      (#""music.read""#, true), (#""openid music.read email""#, true), (#"["music.read"]"#, true),
      (#""music.readonly""#, false), (#""openid,music.read""#, false), (#""""#, false),
    ] {
      let claims = "\(JWTSamples.claims.dropLast()),\"\(name)\":\(value)}"
      let refusal = try verdict(on: JWTSamples.token(claims: claims), rules).refusal
      #expect(refusal == (isEnough ? nil : .requiredClaim(name)), "\(value)")
    }
  }
}
