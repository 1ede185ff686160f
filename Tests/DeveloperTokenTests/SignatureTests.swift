import Cryptography
import Testing

@testable import DeveloperToken

@Suite("A signature")
struct SignatureTests {
  private static func der(_ r: [UInt8], _ s: [UInt8]) -> [UInt8] {
    let integers = [0x02, UInt8(r.count)] + r + [0x02, UInt8(s.count)] + s
    return [0x30, UInt8(integers.count)] + integers
  }

  private static func padded(_ bytes: [UInt8]) -> [UInt8] {
    let value = Array(bytes.drop { $0 == 0 })
    return [UInt8](repeating: 0, count: 32 - value.count) + value
  }

  private static let full = [UInt8](repeating: 0x7F, count: 32)
  private static let high = [0] + [UInt8](repeating: 0xFF, count: 32)

  static let wellFormed: [(r: [UInt8], s: [UInt8])] = [
    (full, full), (high, full), (full, high), (high, high), ([1], full), (full, [1]), ([1], [1]), ([0, 0x80], [0x7F]),
    (Array(full.dropLast()), full), (full, Array(full.dropLast(2))), ([0] + high.dropFirst(2), full),
  ]

  @Test("keeps short and long r and s through DER and back", arguments: wellFormed)
  func roundTrip(r: [UInt8], s: [UInt8]) throws {
    let der = Self.der(r, s)
    let signature = try #require(ECDSASignature(der: der))
    #expect(signature.bytes == Self.padded(r) + Self.padded(s))
    #expect(signature.der == der)
  }

  static let malformed: [(label: String, der: [UInt8])] = [
    ("empty", []),
    ("no integers", [0x30, 0x00]),
    ("one integer", [0x30, 0x03, 0x02, 0x01, 0x01]),
    ("a byte after the end", der(full, full) + [0]),
    ("a byte after s inside", [0x30, 0x07, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01, 0x00]),
    ("another tag for the whole", [0x31] + der(full, full).dropFirst()),
    ("another tag for r", [0x30, 0x06, 0x03, 0x01, 0x01, 0x02, 0x01, 0x01]),
    ("a negative r", der([0x80], [1])),
    ("a padded r", der([0, 1], [1])),
    ("a zero s", der([1], [0])),
    ("an empty s", [0x30, 0x05, 0x02, 0x01, 0x01, 0x02, 0x00]),
    ("an r of 33 bytes", der([0x7F] + full, [1])),
    ("an r of 34 bytes", der([0] + [0xFF] + high.dropFirst(), [1])),
    ("a length in the long form", [0x30, 0x81, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01]),
    ("an integer that runs over the end", [0x30, 0x06, 0x02, 0x7F, 0x01, 0x02, 0x01, 0x01]),
  ]

  @Test("in any encoding other than DER is refused", arguments: malformed)
  func refused(label: String, der: [UInt8]) { #expect(ECDSASignature(der: der) == nil) }

  @Test("that is truncated anywhere is refused")
  func everyPrefix() {
    let der = Self.der(Self.high, Self.high)
    for count in 0..<der.count { #expect(ECDSASignature(der: Array(der[..<count])) == nil) }
  }

  @Test("with a short r or s verifies")
  func shortOnesVerify() throws {
    let key = try Samples.key()
    var (shortR, shortS) = (0, 0)
    for count in 0..<20_000 where shortR == 0 || shortS == 0 {
      let input = Array("\(count)".utf8)
      let signature = try key.signature(of: input)
      (shortR, shortS) = (shortR + (signature.raw[0] == 0 ? 1 : 0), shortS + (signature.raw[32] == 0 ? 1 : 0))
      guard signature.raw[0] == 0 || signature.raw[32] == 0 else { continue }
      #expect(key.verificationKey.verifies(signature, of: input))
    }
    #expect(shortR > 0 && shortS > 0)
  }

  @Test("is appended to the existing bytes")
  func appends() throws {
    let key = try Samples.key()
    let input: [UInt8] = [7]
    var output: [UInt8] = [1, 2, 3]
    try key.sign(input.span, appendingTo: &output)
    #expect(output.count == 67 && output.prefix(3) == [1, 2, 3])
    let signature = try #require(ECDSASignature(raw: Array(output[3...])))
    #expect(key.verificationKey.verifies(signature, of: [7]))
    #expect(!key.verificationKey.verifies(signature, of: [8]))
  }

  @Test("of RFC 7515 appendix A.3 verifies, and does not verify with one bit of any byte changed")
  func publishedVector() throws {
    let x = Base64Text.decode("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
    let y = Base64Text.decode("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")
    let key = try #require(VerificationKey(x: x, y: y))
    let compact = Array(
      ("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        + "cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q").utf8)
    let jws = try JWS(compact: compact)
    #expect(key.verifies(jws))
    for index in compact.indices {
      var changed = compact
      changed[index] ^= 0x01
      guard let other = try? JWS(compact: changed) else { continue }
      #expect(!key.verifies(other), "byte \(index)")
    }
  }

  @Test("needs a key whose coordinates are a point of the curve")
  func noPoint() {
    let bytes = [UInt8](repeating: 1, count: 32)
    #expect(VerificationKey(x: bytes, y: bytes) == nil)
    #expect(VerificationKey(x: bytes, y: []) == nil)
  }
}
