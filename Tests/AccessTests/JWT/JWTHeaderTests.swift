import Testing

@testable import Access

@Suite("The header of a JWT")
struct JWTHeaderTests {
  /// A header that is signed with the set's EC key, and the refusal of the token; nil if the token is accepted.
  struct Case: Sendable, CustomTestStringConvertible {
    let label: String
    let header: String
    let refusal: JWTRefusal?

    init(_ label: String, _ header: String, _ refusal: JWTRefusal?) {
      (self.label, self.header, self.refusal) = (label, header, refusal)
    }

    var testDescription: String { label }
  }

  static let cases = [
    Case("alg none", #"{"alg":"none","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg None", #"{"alg":"None","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg NONE", #"{"alg":"NONE","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg nOnE", #"{"alg":"nOnE","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg empty", #"{"alg":"","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg with a space", #"{"alg":"ES256 ","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg in lower case", #"{"alg":"es256","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg null", #"{"alg":null,"kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg in an array", #"{"alg":["ES256"],"kid":"ec"}"#, .unsupportedAlgorithm),
    Case("no alg", #"{"kid":"ec"}"#, .unsupportedAlgorithm),
    Case("HS256", #"{"alg":"HS256","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("ES384", #"{"alg":"ES384","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("ES256K", #"{"alg":"ES256K","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("RS1", #"{"alg":"RS1","kid":"ec"}"#, .unsupportedAlgorithm),
    Case("alg twice", #"{"alg":"none","alg":"ES256","kid":"ec"}"#, .malformed(.repeatedMember)),
    Case("alg twice, once escaped", #"{"alg":"ES256","\u0061lg":"none","kid":"ec"}"#, .malformed(.repeatedMember)),
    Case("kid twice", #"{"alg":"ES256","kid":"ec","kid":"rsa"}"#, .malformed(.repeatedMember)),

    Case("crit with an unknown name", #"{"alg":"ES256","kid":"ec","crit":["x"],"x":1}"#, .criticalHeader),
    Case("crit empty", #"{"alg":"ES256","kid":"ec","crit":[]}"#, .criticalHeader),
    Case("crit null", #"{"alg":"ES256","kid":"ec","crit":null}"#, .criticalHeader),
    Case("crit that names alg", #"{"alg":"ES256","kid":"ec","crit":["alg"]}"#, .criticalHeader),
    Case("crit before a bad alg", #"{"alg":"none","kid":"ec","crit":["x"]}"#, .criticalHeader),
    Case("b64 false", #"{"alg":"ES256","kid":"ec","b64":false}"#, .criticalHeader),
    Case("b64 false and critical", #"{"alg":"ES256","kid":"ec","b64":false,"crit":["b64"]}"#, .criticalHeader),
    Case("b64 as a string", #"{"alg":"ES256","kid":"ec","b64":"false"}"#, .criticalHeader),
    Case("b64 true, which says nothing", #"{"alg":"ES256","kid":"ec","b64":true}"#, nil),

    Case("jku", #"{"alg":"ES256","kid":"ec","jku":"https://evil.example/jwks.json"}"#, .keyInHeader),
    Case("jku null", #"{"alg":"ES256","kid":"ec","jku":null}"#, .keyInHeader),
    Case("x5u", #"{"alg":"ES256","kid":"ec","x5u":"https://evil.example/c.pem"}"#, .keyInHeader),
    Case("x5c", #"{"alg":"ES256","kid":"ec","x5c":["MIIB"]}"#, .keyInHeader),
    Case("jwk", #"{"alg":"ES256","kid":"ec","jwk":{"kty":"EC"}}"#, .keyInHeader),
    Case("x5t, which only names", #"{"alg":"ES256","kid":"ec","x5t":"c2hhMQ","x5t#S256":"c2hh"}"#, nil),
    Case("a member that nobody knows", #"{"alg":"ES256","kid":"ec","zap":{"a":[1]}}"#, nil),

    Case("no typ", #"{"alg":"ES256","kid":"ec"}"#, nil),
    Case("typ JWT", #"{"alg":"ES256","kid":"ec","typ":"JWT"}"#, nil),
    Case("typ jwt", #"{"alg":"ES256","kid":"ec","typ":"jwt"}"#, nil),
    Case("typ at+jwt", #"{"alg":"ES256","kid":"ec","typ":"at+jwt"}"#, nil),
    Case("typ application/at+jwt", #"{"alg":"ES256","kid":"ec","typ":"Application/AT+JWT"}"#, nil),
    Case("typ application/jwt", #"{"alg":"ES256","kid":"ec","typ":"application/jwt"}"#, nil),
    Case("typ of a DPoP proof", #"{"alg":"ES256","kid":"ec","typ":"dpop+jwt"}"#, .wrongType),
    Case("typ of a logout token", #"{"alg":"ES256","kid":"ec","typ":"logout+jwt"}"#, .wrongType),
    Case("typ JOSE", #"{"alg":"ES256","kid":"ec","typ":"JOSE"}"#, .wrongType),
    Case("typ null", #"{"alg":"ES256","kid":"ec","typ":null}"#, .wrongType),
    Case("typ with a prefix twice", #"{"alg":"ES256","typ":"application/application/jwt"}"#, .wrongType),

    Case("kid a number", #"{"alg":"ES256","kid":1}"#, .malformed(.keyID)),
    Case("kid null", #"{"alg":"ES256","kid":null}"#, .malformed(.keyID)),
    Case("kid empty", #"{"alg":"ES256","kid":""}"#, .malformed(.keyID)),
    Case(
      "kid of 257 bytes", #"{"alg":"ES256","kid":""# + String(repeating: "k", count: 257) + #""}"#, .malformed(.keyID)),
    Case("kid of 256 bytes", #"{"alg":"ES256","kid":""# + String(repeating: "k", count: 256) + #""}"#, .unknownKey),
    Case("kid with a path", #"{"alg":"ES256","kid":"../../ec"}"#, .unknownKey),
    Case("kid with SQL", #"{"alg":"ES256","kid":"x' UNION SELECT 'key"}"#, .unknownKey),
    Case("kid in other letters", #"{"alg":"ES256","kid":"EC"}"#, .unknownKey),
    Case("kid with a NUL", #"{"alg":"ES256","kid":"ec\u0000"}"#, .unknownKey),
    Case("kid of another key", #"{"alg":"ES256","kid":"rsa"}"#, .keyMismatch),
    Case("no kid and one key that fits", #"{"alg":"ES256"}"#, nil),

    Case("an array", #"["ES256"]"#, .malformed(.header)),
    Case("a string", #""ES256""#, .malformed(.header)),
    Case("not JSON", "alg", .malformed(.header)),
    Case("two objects", #"{"alg":"ES256"}{"alg":"ES256"}"#, .malformed(.header)),
    Case("nothing", "", .malformed(.header)),
    Case("deeply nested", #"{"alg":"ES256","a":"# + String(repeating: "[", count: 5000), .malformed(.header)),
    Case("not UTF-8 by escape", #"{"alg":"ES256","kid":"\ud800"}"#, .malformed(.header)),
  ]

  @Test("is refused if it requires more than the verification of one signature", arguments: cases)
  func refused(_ example: Case) throws {
    let token = try JWTSamples.keys.ec.get().token(header: example.header, claims: JWTSamples.claims)
    #expect(try verdict(on: token).refusal == example.refusal)
  }

  @Test("with the sender's own key is refused, although that key signed the token")
  func ownKey() throws {
    let own = try TestKey(.p256)
    let header = #"{"alg":"ES256","kid":"ec","jwk":"# + own.jwk() + "}"
    #expect(try verdict(on: own.token(header: header, claims: JWTSamples.claims)).refusal == .keyInHeader)
  }
}
