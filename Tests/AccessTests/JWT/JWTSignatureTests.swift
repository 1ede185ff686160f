import Bytes
import Cryptography
import DeveloperToken
import TestSupport
import Testing

@testable import Access

@Suite("The signature of a JWT")
struct JWTSignatureTests {
  static let algorithms = JWTAlgorithm.allCases.map(\.rawValue)

  @Test("verifies with the named key, repeatedly", arguments: algorithms)
  func good(algorithm: String) throws {
    let keys = try JWTSamples.keys.set()
    let token = try JWTSamples.token(algorithm)
    let changed = try JWTSamples.token(algorithm, claims: JWTSamples.claims.replacing("user-1", with: "user-2"))
    let forged = zip(token.split(separator: "."), changed.split(separator: ".")).enumerated()
      .map { $0.offset < 2 ? $0.element.0 : $0.element.1 }.joined(separator: ".")
    for _ in 0..<3 {
      #expect(try verdict(on: token, by: keys).get().subject == "user-1")
      #expect(try verdict(on: forged, by: keys).refusal == .badSignature)
    }
  }

  @Test("does not verify with any bit changed", arguments: algorithms)
  func flipped(algorithm: String) throws {
    let keys = try JWTSamples.keys.set()
    let (input, signature) = try parts(algorithm)
    for bit in 0..<(signature.count * 8) {
      var changed = signature
      changed[bit / 8] ^= 1 << UInt8(bit % 8)
      #expect(try verdict(on: "\(input).\(base64URL(changed))", by: keys).refusal == .badSignature, "bit \(bit)")
    }
  }

  @Test("does not verify in any other length", arguments: algorithms)
  func otherLengths(algorithm: String) throws {
    let keys = try JWTSamples.keys.set()
    let (input, signature) = try parts(algorithm)
    for changed in [
      [], [0], Array(signature.dropLast()), Array(signature.dropFirst()), signature + [0], [0] + signature,
      signature + signature, [UInt8](repeating: 0, count: signature.count),
      [UInt8](repeating: 0xFF, count: signature.count), [UInt8](repeating: 0, count: 8192),
    ] {
      #expect(
        try verdict(on: "\(input).\(base64URL(changed))", by: keys).refusal == .badSignature, "\(changed.count) bytes")
    }
  }

  @Test("by ECDSA does not verify in DER, or if r or s is 0 or not below n")
  func ecdsa() throws {
    let keys = try JWTSamples.keys.set()
    let (input, signature) = try parts("ES256")
    let der = try JWTSamples.keys.ec.get().derSignature("ES256", of: Array(input.utf8))
    // The order of P-256 (FIPS 186-5, SP 800-186 §3.2.1.3).
    let order: [UInt8] = [
      0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
      0xBC, 0xE6, 0xFA, 0xAD, 0xA7, 0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63, 0x25, 0x51,
    ]
    let zero = [UInt8](repeating: 0, count: 32)
    let one: [UInt8] = zero.dropLast() + [1]
    let (r, s) = (Array(signature[..<32]), Array(signature[32...]))
    let cases: [(label: String, bytes: [UInt8])] = [
      ("DER", der), ("r = 0", zero + s), ("s = 0", r + zero), ("both 0", zero + zero), ("r = n", order + s),
      ("s = n", r + order), ("both n", order + order), ("r = 0, s = 1", zero + one), ("both 1", one + one),
      ("s + n", r + sum(s, order)),
    ]
    for (label, bytes) in cases {
      #expect(try verdict(on: "\(input).\(base64URL(bytes))", by: keys).refusal == .badSignature, "\(label)")
    }
  }

  @Test("by Ed25519 does not verify if S is not below the order of the group")
  func ed25519() throws {
    let keys = try JWTSamples.keys.set()
    let (input, signature) = try parts("EdDSA")
    // L of RFC 8032 §5.1, big-endian.
    let order: [UInt8] =
      [0x10] + [UInt8](repeating: 0, count: 15) + [
        0x14, 0xDE, 0xF9, 0xDE, 0xA2, 0xF7, 0x9C, 0xD6, 0x58, 0x12, 0x63, 0x1A, 0x5C, 0xF5, 0xD3, 0xED,
      ]
    let (r, s) = (Array(signature[..<32]), Array(signature[32...].reversed()))
    var multiple = sum(s, order)
    while multiple.count == 32 {
      let changed = r + multiple.reversed()
      #expect(try verdict(on: "\(input).\(base64URL(changed))", by: keys).refusal == .badSignature)
      multiple = sum(multiple, order)
    }
    // R of small order, and S = 0.
    let neutral = [1] + [UInt8](repeating: 0, count: 63)
    #expect(try verdict(on: "\(input).\(base64URL(neutral))", by: keys).refusal == .badSignature)
  }

  @Test("by RSA does not verify if the signature is not below the modulus")
  func rsa() throws {
    let keys = try JWTSamples.keys.set()
    let modulus = try JWTSamples.keys.rsa.get().material["n"] ?? []
    for algorithm in ["RS256", "PS256"] {
      let (input, signature) = try parts(algorithm)
      for changed in [modulus, sum(signature, modulus)] {
        #expect(try verdict(on: "\(input).\(base64URL(changed))", by: keys).refusal == .badSignature)
      }
    }
  }

  @Test(
    "by PSS does not verify with a salt of another length than the hash",
    arguments: [0, 20, 31, 33, 64, 222] as [Int32])
  func salt(length: Int32) throws {
    let (input, _) = try parts("PS256")
    let signature = try JWTSamples.keys.rsa.get().signature("PS256", of: Array(input.utf8), saltLength: length)
    #expect(signature.count == 256)
    #expect(try verdict(on: "\(input).\(base64URL(signature))").refusal == .badSignature)
  }

  @Test("in one thread does not affect signatures in other threads")
  func manyThreads() throws {
    let keys = try JWTSamples.keys.set()
    let tokens = try Self.algorithms.map { try JWTSamples.token($0) }
    let failures = try Threads.run(8) { index in
      (0..<50).count { round in
        let token = tokens[(index + round) % tokens.count]
        let isForged = (index + round / 4) % 2 == 1
        let claims = isForged ? token.replacing(".", with: ".AAAA", maxReplacements: 1) : token
        let refusal = Result { () throws(JWTRefusal) in try JWT(compact: Array(claims.utf8).span) }
          .flatMap { jwt in
            Result { () throws(JWTRefusal) in try jwt.verify(by: keys, rules: JWTSamples.rules, now: JWTSamples.now) }
          }.refusal
        return (refusal == nil) == isForged
      }
    }
    #expect(failures == [Int](repeating: 0, count: 8))
  }

  private func parts(_ algorithm: String) throws -> (input: String, signature: [UInt8]) {
    let token = try JWTSamples.token(algorithm)
    let jwt = try JWT(compact: Array(token.utf8).span)
    return (String(decoding: jwt.jws.signingInput, as: UTF8.self), jwt.jws.signature)
  }

  /// The sum of two big-endian numbers of equal length, possibly one byte longer.
  private func sum(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] {
    var (sum, carry): ([UInt8], UInt16) = ([], 0)
    for (left, right) in zip(left.reversed(), right.reversed()) {
      let digit = UInt16(left) + UInt16(right) + carry
      sum.append(UInt8(digit & 0xFF))
      carry = digit >> 8
    }
    return Array((carry > 0 ? sum + [UInt8(carry)] : sum).reversed())
  }
}
