import Testing

@testable import Access

@Suite struct APIKeyTests {
  static func bytes(of key: APIKey) -> [UInt8] {
    key.withBytes { bytes in bytes.indices.map { bytes[$0] } }
  }

  @Test("a thousand keys are all genuine, all different, and match the pattern for secret scanners")
  func thousand() throws {
    var keys: Set<[UInt8]> = []
    for _ in 0..<1000 {
      let key = Self.bytes(of: try APIKey.generate())
      let text = String(decoding: key, as: UTF8.self)
      #expect(APIKeyForm(of: key.span) == .genuine)
      #expect(try #/\bmkts_[0-9A-Za-z]{49}\b/#.wholeMatch(in: text) != nil, "\(text)")
      keys.insert(key)
    }
    #expect(keys.count == 1000)
  }

  @Test("every character of base 62 is equally likely")
  func evenness() throws {
    var counts: [UInt8: Int] = [:]
    let keys = 1000
    for _ in 0..<keys {
      for character in Self.bytes(of: try APIKey.generate())[5..<48] { counts[character, default: 0] += 1 }
    }
    let expected = Double(keys * 43) / 62
    // χ² with 61 degrees of freedom: above 160 once in 10¹⁰ runs, while 8 characters that are likelier by a fourth,
    // as plain `byte % 62` has them, make about 340.
    let chiSquared = counts.values.reduce(0) { $0 + (Double($1) - expected) * (Double($1) - expected) / expected }
    #expect(counts.count == 62)
    #expect(chiSquared < 160, "\(chiSquared)")
  }

  @Test("the digest of a key is the digest of its characters")
  func digest() throws {
    let key = try APIKey.generate()
    #expect(try APIKeyDigest(of: Self.bytes(of: key).span) == key.digest)
  }

  @Test("a key never appears in its descriptions or dumps")
  func redaction() throws {
    let key = try APIKey.generate()
    let text = String(decoding: Self.bytes(of: key), as: UTF8.self)
    var dumped = ""
    dump(key, to: &dumped)
    for shown in ["\(key)", String(reflecting: key), dumped] { #expect(!shown.contains(text.dropFirst(5).prefix(8))) }
  }
}
