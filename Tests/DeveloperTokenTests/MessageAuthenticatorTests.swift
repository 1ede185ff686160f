import Bytes
import Cryptography
import DeveloperToken
import TestSupport
import Testing

@Suite("Codes of messages")
struct MessageAuthenticatorTests {
  /// The test vectors of RFC 4231 with keys of up to 131 bytes.
  @Test(
    "are HMAC-SHA-256",
    arguments: [
      (
        [UInt8](repeating: 0x0b, count: 20), Array("Hi There".utf8),
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
      ),
      (
        Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
      ),
      (
        [UInt8](repeating: 0xaa, count: 131), Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
      ),
    ])
  func vectors(_ key: [UInt8], _ message: [UInt8], _ expected: String) throws {
    let authenticator = try MessageAuthenticator(key: SecretBytes(copying: key.span))
    for _ in 1...2 {
      let code = authenticator.code(of: message.span)
      let hexadecimal = String(hexadecimal: code.span)
      #expect(hexadecimal == expected)
    }
  }

  @Test("need the same signing key on every replica, and differ for each purpose and key")
  func derived() throws {
    let key = try KeyPair()
    func code(_ pem: String, _ label: StaticString) throws -> [UInt8] {
      let signing = try SigningKey(
        parsing: SecretBytes(copying: Array(pem.utf8).span), keyID: try KeyID("ABC1234567"))
      let secret = try signing.secret(for: label)
      #expect(secret.count == 32)
      let code = try MessageAuthenticator(key: secret).code(of: [1, 2, 3].span)
      return code.indices.map { code[$0] }
    }
    #expect(try code(key.pem, "a") == code(key.pem, "a"))
    #expect(try code(key.pem, "a") != code(key.pem, "b"))
    #expect(try code(key.pem, "a") != code(KeyPair().pem, "a"))
  }
}
