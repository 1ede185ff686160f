import Testing

@testable import Access

@Suite("A set of keys")
struct JSONWebKeySetTests {
  // MARK: Sets

  @Test("accepts keys of each kind, with additional members")
  func taken() throws {
    let keys = JWTSamples.keys
    let set = try keySet([
      keys.ec.get().jwk("ec", ["use": #""sig""#, "alg": #""ES256""#, "x5c": #"["MIIB"]"#, "x5t": #""abc""#]),
      keys.rsa.get().jwk("rsa", ["key_ops": #"["verify"]"#, "alg": #""RS256""#]),
      keys.ed.get().jwk("ed", ["key_ops": #"["encrypt","verify"]"#, "nobody knows": "[{}]"]),
    ])
    #expect(set.count == 3)
    #expect(set.findings.isEmpty)
  }

  /// Invalid sets, and words that the error must contain.
  static let faultySets: [(label: String, json: String, words: String)] = [
    ("nothing", "", "is not a JSON object"),
    ("white space", " \n", "is not a JSON object"),
    ("an array", "[]", "is not a JSON object"),
    ("cut off", #"{"keys":["#, "is not a JSON object"),
    ("PEM", "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n", "is PEM"),
    ("a web page", "\n<!DOCTYPE html><html></html>", "is a web page"),
    ("no keys", "{}", "has no array “keys”"),
    ("keys an object", #"{"keys":{}}"#, "has no array “keys”"),
    ("keys twice", #"{"keys":[],"keys":[]}"#, "repeats a member"),
    ("empty", #"{"keys":[]}"#, "no usable key"),
    ("of strings", #"{"keys":["a"]}"#, "not a JSON object"),
    ("a discovery document", #"{"issuer":"x","jwks_uri":"https://id.example.com/k"}"#, "“https://id.example.com/k”"),
    ("a single key", #"{"kty":"EC","crv":"P-256"}"#, "is a single key"),
    ("Google's certificates", #"{"1":"-----BEGIN CERTIFICATE-----"}"#, "has no array “keys”"),
    ("of too many keys", #"{"keys":["# + String(repeating: "{},", count: 64) + "{}]}", "has 65 keys"),
    ("too long", String(repeating: " ", count: 262_145), "longer than 262144 bytes"),
    ("deeply nested", String(repeating: "[", count: 100_000), "is not a JSON object"),
  ]

  @Test("that is invalid is refused with a helpful sentence", arguments: faultySets)
  func refused(_ example: (label: String, json: String, words: String)) {
    let error = #expect(throws: JSONWebKeySetError.self) { try JSONWebKeySet(Array(example.json.utf8)) }
    #expect(error?.description.contains(example.words) == true, "\(example.label): \(error?.description ?? "")")
    #expect(error?.description.hasPrefix("The key set ") == true)
  }

  @Test("may have up to 64 keys")
  func most() throws {
    let jwk = try JWTSamples.keys.ec.get().jwk("ec")
    let set = try keySet([jwk] + [String](repeating: #"{"kty":"XYZ"}"#, count: 63))
    #expect(set.count == 1)
    #expect(set.findings.count == 63)
  }

  @Test("with the same key twice contains the key once")
  func twice() throws {
    let jwk = try JWTSamples.keys.ec.get().jwk("ec")
    let set = try keySet([jwk, jwk])
    #expect(set.count == 1)
    #expect(set.findings.isEmpty)
  }

  @Test("with shared or missing key IDs has findings")
  func names() throws {
    let set = try keySet([TestKey(.p256).jwk("a"), TestKey(.p256).jwk("a"), TestKey(.p256).jwk(nil)])
    #expect(set.count == 3)
    #expect(set.findings.map { String($0.prefix(24)) } == ["Key 2, “a”, has the kid ", "Key 3 has no kid: the se"])
  }

  // MARK: Keys

  /// Members that replace those of a valid key, and words that the finding must contain.
  struct Case: Sendable, CustomTestStringConvertible {
    let label: String
    let algorithm: String
    let members: [String: String]
    let words: String

    init(_ label: String, _ algorithm: String, _ members: [String: String], _ words: String) {
      (self.label, self.algorithm, self.members, self.words) = (label, algorithm, members, words)
    }

    var testDescription: String { label }
  }

  static let otherPurposes = [
    Case("for encryption", "RS256", ["use": #""enc""#], "its use is not “sig”"),
    Case("for Sig", "RS256", ["use": #""Sig""#], "its use is not “sig”"),
    Case("use null", "RS256", ["use": "null"], "its use is not “sig”"),
    Case("to sign only", "ES256", ["key_ops": #"["sign"]"#], "its key_ops"),
    Case("for no operation", "ES256", ["key_ops": "[]"], "its key_ops"),
    Case("key_ops a string", "ES256", ["key_ops": #""verify""#], "its key_ops"),
    Case("alg of another kind", "RS256", ["alg": #""ES256""#], "its alg is not one of PS256, RS256"),
    Case("alg with another hash", "RS256", ["alg": #""RS512""#], "its alg is not one of PS256, RS256"),
    Case("alg for encryption", "RS256", ["alg": #""RSA-OAEP""#], "its alg is not one of PS256, RS256"),
    Case("alg a number", "ES256", ["alg": "256"], "its alg is not one of ES256"),
    Case("kty of nobody", "ES256", ["kty": #""XYZ""#], "neither RSA, nor EC"),
    Case("no kty", "ES256", ["kty": ""], "neither RSA, nor EC"),
    Case("kty in other letters", "ES256", ["kty": #""ec""#], "neither RSA, nor EC"),
    Case("P-384", "ES256", ["crv": #""P-384""#], "neither RSA, nor EC"),
    Case("secp256k1", "ES256", ["crv": #""secp256k1""#], "neither RSA, nor EC"),
    Case("X25519", "EdDSA", ["crv": #""X25519""#], "neither RSA, nor EC"),
    Case("Ed448", "EdDSA", ["crv": #""Ed448""#], "neither RSA, nor EC"),
    Case("RSA by name, EC by members", "ES256", ["kty": #""RSA""#], "its n is not base64url"),
    Case("kid a number", "ES256", ["kid": "1"], "its kid is not a string"),
    Case("kid empty", "ES256", ["kid": #""""#], "its kid is not a string"),
    Case("a private EC key", "ES256", ["d": #""AQ""#], "NOT PUBLIC"),
    Case("a private RSA key", "RS256", ["d": #""AQ""#, "p": #""AQ""#], "NOT PUBLIC"),
    Case("a prime of an RSA key", "RS256", ["q": "null"], "NOT PUBLIC"),
    Case("a private Ed25519 key", "EdDSA", ["d": #""AQ""#], "NOT PUBLIC"),
    Case("a symmetric key", "ES256", ["kty": #""oct""#, "k": #""AQ""#], "NOT PUBLIC"),
    Case("a symmetric key without k", "ES256", ["kty": #""oct""#], "NOT PUBLIC"),
  ]

  static let points = [
    Case("x too short", "ES256", ["x": #""AQ""#], "32 bytes each"),
    Case("x with a leading zero", "ES256", ["x": quoted([0] + [UInt8](repeating: 1, count: 32))], "32 bytes each"),
    Case("no y", "ES256", ["y": ""], "its y is not base64url"),
    Case("x with padding", "ES256", ["x": #""AQ==""#], "its x is not base64url"),
    Case("x a number", "ES256", ["x": "1"], "its x is not base64url"),
    Case("not on the curve", "ES256", ["x": quoted([UInt8](repeating: 1, count: 32))], "not a point of P-256"),
    Case("all zero", "ES256", ["x": quoted(zeros), "y": quoted(zeros)], "not a point of P-256"),
    Case("beyond the field", "ES256", ["x": quoted(ones), "y": quoted(ones)], "not a point of P-256"),
    Case("Ed25519 too short", "EdDSA", ["x": quoted([UInt8](repeating: 1, count: 31))], "not 32 bytes"),
    Case("Ed25519 zero, of order 4", "EdDSA", ["x": quoted(zeros)], "not the point of a valid key"),
    Case("Ed25519 zero, negative", "EdDSA", ["x": quoted(zeros.dropLast() + [0x80])], "not the point of a valid key"),
    Case("Ed25519 neutral", "EdDSA", ["x": quoted([1] + zeros.dropLast())], "not the point of a valid key"),
    Case(
      "Ed25519 neutral, negative", "EdDSA", ["x": quoted([1] + zeros.dropLast(2) + [0x80])],
      "not the point of a valid key"),
    Case("Ed25519 p - 1, of order 2", "EdDSA", ["x": quoted(nearPrime(0xEC))], "not the point of a valid key"),
    Case("Ed25519 p, zero once more", "EdDSA", ["x": quoted(nearPrime(0xED))], "not the point of a valid key"),
    Case("Ed25519 p + 1", "EdDSA", ["x": quoted(nearPrime(0xEE))], "not the point of a valid key"),
    Case("Ed25519 p + 18", "EdDSA", ["x": quoted(nearPrime(0xFF))], "not the point of a valid key"),
    Case("Ed25519 all ones", "EdDSA", ["x": quoted(ones)], "not the point of a valid key"),
    Case(
      "Ed25519 of order 8", "EdDSA",
      ["x": #""JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU""#], "not the point of a valid key"),
    Case(
      "Ed25519 of order 8, the other", "EdDSA",
      ["x": #""xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA_o""#], "not the point of a valid key"),
  ]

  static let numbers = [
    Case("e = 1", "RS256", ["e": #""AQ""#], "its exponent"),
    Case("e = 0", "RS256", ["e": #""AA""#], "its exponent"),
    Case("e empty", "RS256", ["e": #""""#], "its exponent"),
    Case("e even", "RS256", ["e": #""AQAA""#], "its exponent"),
    Case("e = 2", "RS256", ["e": #""Ag""#], "its exponent"),
    Case("e = 2³¹ + 1", "RS256", ["e": quoted([0x80, 0, 0, 1])], "its exponent"),
    Case("e of 8 bytes", "RS256", ["e": quoted([1, 0, 0, 0, 0, 0, 0, 1])], "its exponent"),
    Case("e of a thousand bytes", "RS256", ["e": quoted([UInt8](repeating: 1, count: 1000))], "its exponent"),
    Case("no n", "RS256", ["n": ""], "its n is not base64url"),
    Case("n empty", "RS256", ["n": #""""#], "or 0"),
    Case("n = 0", "RS256", ["n": quoted([UInt8](repeating: 0, count: 256))], "or 0"),
    Case("n of 512 bits", "RS256", ["n": quoted([UInt8](repeating: 0xFF, count: 64))], "has 512 bits"),
    Case("n of 2047 bits", "RS256", ["n": quoted([0x7F] + [UInt8](repeating: 0xFF, count: 255))], "has 2047 bits"),
    Case(
      "n of 512 bits with zeros in front", "RS256",
      ["n": quoted([UInt8](repeating: 0, count: 200) + [UInt8](repeating: 0xFF, count: 64))], "has 512 bits"),
    Case("n of 8200 bits", "RS256", ["n": quoted([UInt8](repeating: 0xFF, count: 1025))], "longer than 8192 bits"),
    Case("n even", "RS256", ["n": quoted([UInt8](repeating: 0xFE, count: 256))], "is even"),
  ]

  @Test("leaves out keys that cannot verify signatures, with the reason", arguments: otherPurposes + points + numbers)
  func leftOut(_ example: Case) throws {
    let key = try JWTSamples.key(example.algorithm).key
    let other = try TestKey(.p256).jwk("other")
    let set = try keySet([key.jwk("bad", example.members), other])
    #expect(set.count == 1)
    #expect(set.findings.count == 1)
    #expect(set.findings.first?.contains(example.words) == true, "\(set.findings)")
    let alone = #expect(throws: JSONWebKeySetError.self) { try keySet([key.jwk("bad", example.members)]) }
    #expect(alone?.description.contains(example.words) == true)
  }

  @Test("leaves out a key that has a member twice")
  func repeated() throws {
    let jwk = try JWTSamples.keys.ec.get().jwk("ec")
    let error = #expect(throws: JSONWebKeySetError.self) { try keySet([jwk.dropLast() + #","x":"AQ"}"#]) }
    #expect(error?.description.contains("repeats a member") == true)
  }

  @Test("accepts RSA keys of common sizes", arguments: [2048, 2056, 3072, 4096] as [Int32])
  func sizes(bits: Int32) throws {
    let key = try TestKey(.rsa(bits))
    let token = key.token(header: #"{"alg":"PS256","kid":"k"}"#, claims: JWTSamples.claims, "PS256")
    #expect(try verdict(on: token, by: keySet([key.jwk("k")])).refusal == nil)
    let padded = try keySet([key.jwk("k", ["n": quoted([0] + (key.material["n"] ?? []))])])
    #expect(try verdict(on: token, by: padded).refusal == nil)
  }

  @Test("has findings without control characters, whatever the set contains")
  func harmless() throws {
    let evil = #"{"kty":"XYZ","kid":"\u001b[2Jnew\nline"}"#
    let set = try keySet([evil, JWTSamples.keys.ec.get().jwk()])
    #expect(set.findings.first?.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } == true)
  }
}

/// The bytes in base64url and quotes.
private func quoted(_ bytes: [UInt8]) -> String { "\"\(base64URL(bytes))\"" }

private let zeros = [UInt8](repeating: 0, count: 32)
private let ones = [UInt8](repeating: 0xFF, count: 32)

/// 2²⁵⁵ − 256 and `low`, little-endian: p is 2²⁵⁵ − 19.
private func nearPrime(_ low: UInt8) -> [UInt8] { [low] + [UInt8](repeating: 0xFF, count: 30) + [0x7F] }
