import Testing

@testable import Access

@Suite("A text that should be a JWT")
struct JWTFormTests {
  static let cases: [(label: String, change: @Sendable (String) -> String, refusal: JWTRefusal)] = [
    ("nothing", { _ in "" }, .malformed(.parts)),
    ("a part less", { String($0[..<($0.lastIndex(of: ".") ?? $0.endIndex)]) }, .malformed(.parts)),
    ("a part more", { $0 + ".AAAA" }, .malformed(.parts)),
    ("a dot more", { $0 + "." }, .malformed(.parts)),
    ("an encrypted one's five parts", { $0 + ".AAAA.AAAA" }, .malformed(.parts)),
    ("only dots", { _ in ".." }, .malformed(.header)),
    ("padding at the end", { $0 + "==" }, .malformed(.encoding)),
    ("padding in the header", { $0.replacing(".", with: "=.", maxReplacements: 1) }, .malformed(.encoding)),
    ("a space in front", { " " + $0 }, .malformed(.encoding)),
    ("a line end behind", { $0 + "\n" }, .malformed(.encoding)),
    ("a space within", { $0.replacing(".", with: ". ", maxReplacements: 1) }, .malformed(.encoding)),
    ("quotes", { "\"\($0)\"" }, .malformed(.encoding)),
    ("base64 with plus", { "+" + $0.dropFirst() }, .malformed(.encoding)),
    ("base64 with slash", { "/" + $0.dropFirst() }, .malformed(.encoding)),
    ("a NUL behind", { $0 + "\0" }, .malformed(.encoding)),
    ("a lone character behind", { $0 + "AAA" }, .malformed(.encoding)),
    ("more than fits", { $0 + String(repeating: "A", count: JWT.limit) }, .tooLong),
  ]

  @Test("is refused unless it consists of three parts in base64url", arguments: cases.indices)
  func refused(_ index: Int) throws {
    let example = Self.cases[index]
    let token = example.change(try JWTSamples.token())
    #expect(try verdict(on: token).refusal == example.refusal, "\(example.label)")
  }

  @Test("has only one encoding: the unused bits of the last character must be zero")
  func onlySpelling() throws {
    let token = try JWTSamples.token()
    // 64 bytes leave four unused bits in the last character; of 16 encodings, one is accepted.
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    let good = alphabet.filter { last in
      (try? verdict(on: token.dropLast() + String(last)).refusal) == .some(nil)
    }
    #expect(good == String(token.suffix(1)))
  }

  @Test("is accepted up to the length limit")
  func longest() throws {
    let good = try JWTSamples.token()
    let room = (JWT.limit - good.utf8.count) / 4 * 3
    let filled = JWTSamples.claims.dropLast() + #","x":""# + String(repeating: "x", count: room - 7) + "\"}"
    let token = try JWTSamples.token(claims: String(filled))
    #expect(token.utf8.count > JWT.limit - 8 && token.utf8.count <= JWT.limit)
    #expect(try verdict(on: token).refusal == nil)
  }

  @Test("is refused with a sentence, and each kind of refusal has its own word")
  func sentences() {
    let kinds: [JWTRefusal] = [
      .tooLong, .malformed(.parts), .unsupportedAlgorithm, .algorithmNotAllowed, .criticalHeader, .keyInHeader,
      .wrongType, .wrongIssuer, .wrongAudience, .noExpiry, .expired(seconds: 0), .notYetValid(seconds: 0),
      .issuedInFuture(seconds: 0), .invalidClaim(.issuer), .requiredClaim(""), .unknownKey, .keyMismatch, .ambiguousKey,
      .badSignature,
    ]
    let words = Set(kinds.map(\.reason.description))
    #expect(words.count == kinds.count)
    #expect(words.allSatisfy { $0.hasPrefix("jwt_") })
    let refusals: [JWTRefusal] =
      JWTRefusal.Malformation.allCases.map { .malformed($0) } + JWTRefusal.Claim.allCases.map { .invalidClaim($0) }
    #expect(refusals.allSatisfy { $0.description.hasSuffix(".") && words.contains($0.reason.description) })
  }
}
