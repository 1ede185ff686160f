import Testing

@testable import Access

@Suite struct APIKeyDigestTests {
  /// The digest of "abc", from the examples of FIPS 180-4.
  static let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

  static func digest(of text: String) throws -> APIKeyDigest { try APIKeyDigest(of: Array(text.utf8).span) }

  @Test("the digest of a key is its SHA-256")
  func knownResponses() throws {
    let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    #expect(try Self.digest(of: "abc").hexadecimal == Self.abc)
    #expect(try Self.digest(of: "").hexadecimal == nothing)
  }

  @Test("a digest is read from 64 hexadecimal digits in either case")
  func reading() throws {
    let digest = try Self.digest(of: "abc")
    #expect(APIKeyDigest(hexadecimal: Self.abc) == digest)
    #expect(APIKeyDigest(hexadecimal: Self.abc.uppercased()) == digest)
    #expect(APIKeyDigest(hexadecimal: "\(digest)") == digest)
  }

  /// Each row is the text before the digest, the number of the digest's digits, and the text after them.
  @Test(
    "a digest is not read from any other text",
    arguments: [
      ("", 0, ""), ("", 63, ""), ("", 64, "0"), ("", 64, "\n"), (" ", 63, ""), ("0x", 64, ""), ("0x", 62, ""),
      ("", 63, "g"), ("", 63, "／"), ("", 62, "é"), ("sha256:", 64, ""), ("mkts_", 49, ""), ("-", 63, ""),
    ] as [(String, Int, String)])
  func refusing(before: String, count: Int, after: String) {
    #expect(APIKeyDigest(hexadecimal: before + Self.abc.prefix(count) + after) == nil)
  }

  @Test("two digests that differ in any bit are different")
  func bits() throws {
    let digest = try Self.digest(of: "abc")
    for bit in 0..<256 {
      var digits = Array(Self.abc.utf8).map { UInt8(String(UnicodeScalar($0)), radix: 16) ?? 0 }
      digits[bit / 4] ^= 1 << UInt8(bit % 4)
      let text = digits.map { String($0, radix: 16) }.joined()
      let other = try #require(APIKeyDigest(hexadecimal: text))
      #expect(other != digest, "bit \(bit)")
      #expect(other.hashValue != digest.hashValue, "bit \(bit)")
    }
  }

  @Test(
    "the digest of an empty key is recognized", arguments: [("", true), ("\n", true), (" ", false), ("abc", false)])
  func empty(key: String, isEmpty: Bool) throws {
    #expect(try Self.digest(of: key).isOfEmptyKey == isEmpty)
  }
}
