import Testing

@testable import Access

@Suite struct APIKeyFormTests {
  /// The checksum is from another implementation, Python's `zlib.crc32`.
  static let key = "mkts_" + String(repeating: "0", count: 43) + "1asaxq"

  @Test(
    "the checksum is CRC-32 in base 62",
    arguments: [("123456789", "3jZRME"), ("mkts_" + String(repeating: "0", count: 43), "1asaxq")]
      as [(String, String)])
  func checksum(text: String, digits: String) {
    #expect(APIKeyForm.checksum(of: Array(text.utf8).span) == Array(digits.utf8))
  }

  @Test("a key with its checksum is genuine")
  func genuine() {
    #expect(APIKeyForm(of: Self.key) == .genuine)
  }

  @Test(
    "a key that is truncated, too long or has an invalid character is mistyped",
    arguments: [
      String(key.dropLast()), key + "0", key + "\n", "mkts_", "mkts_…", String(key.prefix(48)),
      // With a correct checksum.
      "mkts_" + String(repeating: "-", count: 43) + "0x65Qb",
    ] as [String])
  func mistyped(text: String) {
    #expect(APIKeyForm(of: text) == .mistyped)
  }

  @Test(
    "any other text may be the key of another system",
    arguments: ["", "mkts", "MKTS_" + key.dropFirst(5), " " + key, "secret"] as [String])
  func other(text: String) {
    #expect(APIKeyForm(of: text) == .other)
  }

  @Test("every wrong character and every swap of two neighbours is detected")
  func typingErrors() throws {
    let key = try APIKeyTests.bytes(of: APIKey.generate())
    for index in key.indices.dropFirst(5) {
      for character in APIKeyForm.alphabet where character != key[index] {
        var typed = key
        typed[index] = character
        #expect(APIKeyForm(of: typed.span) == .mistyped)
      }
      guard index + 1 < key.count, key[index] != key[index + 1] else { continue }
      var typed = key
      typed.swapAt(index, index + 1)
      #expect(APIKeyForm(of: typed.span) == .mistyped)
    }
  }
}
