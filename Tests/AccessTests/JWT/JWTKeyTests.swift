import COpenSSL
import Testing

@testable import Access

@Suite("The key of a JWT")
struct JWTKeyTests {
  @Test("verifies only its own algorithms, whatever the header says")
  func confusion() throws {
    let keys = try JWTSamples.keys.set()
    for (made, keyID) in [("ES256", "ec"), ("RS256", "rsa"), ("PS256", "rsa"), ("EdDSA", "ed")] {
      for said in JWTAlgorithm.allCases.map(\.rawValue) where said != made {
        let header = "{\"alg\":\"\(said)\",\"kid\":\"\(keyID)\"}"
        let token = try JWTSamples.key(made).key.token(header: header, claims: JWTSamples.claims, made)
        let isSameKey = try JWTSamples.key(said).keyID == keyID
        #expect(
          try verdict(on: token, by: keys).refusal == (isSameKey ? .badSignature : .keyMismatch), "\(made) as \(said)")
      }
    }
  }

  @Test("is never used as an HMAC secret, in any form of the public key")
  func symmetric() throws {
    for key in try [JWTSamples.keys.rsa.get(), JWTSamples.keys.ec.get()] {
      let info = key.subjectPublicKeyInfo
      let forms: [[UInt8]] =
        [Array(key.publicPEM.utf8), Array(key.publicPEM.utf8.dropLast()), info, Array(key.jwk().utf8), []]
        + Array(key.material.values)
      for secret in forms {
        for algorithm in ["HS256", "HS384", "ES256", "RS256"] {
          let header = "{\"alg\":\"\(algorithm)\"}"
          let input = "\(base64URL(Array(header.utf8))).\(base64URL(Array(JWTSamples.claims.utf8)))"
          let token = "\(input).\(base64URL(hmac(Array(input.utf8), secret)))"
          let refusal = try verdict(on: token).refusal
          #expect(refusal == (algorithm.hasPrefix("HS") ? .unsupportedAlgorithm : .unknownKey))
        }
      }
    }
  }

  @Test("must fit the algorithms of the rules")
  func rules() throws {
    let rules = JWTRules(issuer: JWTSamples.issuer, audiences: ["music"], algorithms: [.rs256])
    #expect(try verdict(on: JWTSamples.token("RS256"), rules).refusal == nil)
    for algorithm in ["ES256", "PS256", "EdDSA"] {
      #expect(try verdict(on: JWTSamples.token(algorithm), rules).refusal == .algorithmNotAllowed)
    }
  }

  @Test("with its own alg verifies no other algorithm")
  func ownAlgorithm() throws {
    let keys = try keySet([JWTSamples.keys.rsa.get().jwk("rsa", ["alg": #""PS256""#])])
    #expect(try verdict(on: JWTSamples.token("PS256"), by: keys).refusal == nil)
    #expect(try verdict(on: JWTSamples.token("RS256"), by: keys).refusal == .keyMismatch)
  }

  @Test("that is not in the set is unknown")
  func unknown() throws {
    let keys = try keySet([TestKey(.p256).jwk("another")])
    #expect(try verdict(on: JWTSamples.token(), by: keys).refusal == .unknownKey)
  }

  @Test("with the same ID as the signer's but another value does not verify")
  func sameName() throws {
    let keys = try keySet([TestKey(.p256).jwk("ec")])
    #expect(try verdict(on: JWTSamples.token(), by: keys).refusal == .badSignature)
  }

  @Test("may share its ID with one other of its kind, and both are tried")
  func sharedName() throws {
    let others = try (0..<2).map { _ in try TestKey(.p256).jwk("ec") }
    let own = try JWTSamples.keys.ec.get().jwk("ec")
    let rsa = try JWTSamples.keys.rsa.get().jwk("ec")
    #expect(try verdict(on: JWTSamples.token(), by: keySet([others[0], rsa, own])).refusal == nil)
    #expect(try verdict(on: JWTSamples.token(), by: keySet([own, rsa, others[0]])).refusal == nil)
    #expect(try verdict(on: JWTSamples.token(), by: keySet(others)).refusal == .badSignature)
    #expect(try verdict(on: JWTSamples.token(), by: keySet(others + [own])).refusal == .ambiguousKey)
  }

  @Test("needs no ID if it is the only one that fits")
  func unnamed() throws {
    let token = try JWTSamples.keys.ec.get().token(header: #"{"alg":"ES256"}"#, claims: JWTSamples.claims)
    let own = try JWTSamples.keys.ec.get().jwk("ec")
    let other = try TestKey(.p256).jwk("other")
    let rsa = try JWTSamples.keys.rsa.get().jwk("rsa")
    for (label, keys, refusal) in [
      ("the only one of its kind", [rsa, own], nil), ("another one of its kind", [rsa, other], .unknownKey),
      ("two of its kind", [own, other], .ambiguousKey), ("one of another kind", [rsa], .unknownKey),
      ("the only one without an ID", [other, try JWTSamples.keys.ec.get().jwk(nil)], nil),
      ("two without an ID", [other, try TestKey(.p256).jwk(nil), try JWTSamples.keys.ec.get().jwk(nil)], nil),
      (
        "three without an ID",
        [try TestKey(.p256).jwk(nil), try TestKey(.p256).jwk(nil), try JWTSamples.keys.ec.get().jwk(nil)], .ambiguousKey
      ),
    ] as [(String, [String], JWTRefusal?)] {
      #expect(try verdict(on: token, by: keySet(keys)).refusal == refusal, "\(label)")
    }
  }

  @Test("of an expired JWT is not looked up")
  func expired() throws {
    let keys = try keySet([TestKey(.p256).jwk("another")])
    #expect(try verdict(on: JWTSamples.token(), by: keys, now: JWTSamples.now + 360).refusal == .expired(seconds: 60))
  }

  private func hmac(_ input: [UInt8], _ secret: [UInt8]) -> [UInt8] {
    var hash = [UInt8](repeating: 0, count: 32)
    var count: UInt32 = 0
    // A null key differs from an empty key.
    let key = secret + [0]
    unsafe _ = HMAC(EVP_sha256(), key, Int32(secret.count), input, input.count, &hash, &count)
    return hash
  }
}
