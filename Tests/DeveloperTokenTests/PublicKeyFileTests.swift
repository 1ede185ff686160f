import TestSupport
import Testing

@testable import DeveloperToken

@Suite("The file of a signer's public key", .otherPrograms)
struct PublicKeyFileTests {
  private static let pair = Result { try KeyPair() }

  private func error(_ text: String, mode: UInt32 = 0o644) throws -> String? {
    let directory = try TemporaryDirectory()
    let file = try directory.write(text, to: "public.pem", mode: mode)
    do throws(SigningKeyError) { _ = try PublicKeyFile.load(file, keyID: nil) } catch {
      return "\(error)".replacing("The key file “\(file)” ", with: "")
    }
    return nil
  }

  @Test("may be PEM with or without text around it, and readable by everybody")
  func accepted() throws {
    let pem = try Self.pair.get().publicPEM
    #expect(try error(pem) == nil)
    #expect(try error("# The key of 2026\r\n" + pem.replacing("\n", with: "\r\n")) == nil)
  }

  @Test("with a private key is refused, whatever its form")
  func privateKey() throws {
    let pem = try Self.pair.get().pem
    let sentence = try error(pem, mode: 0o600)
    #expect(
      sentence?.hasPrefix("has a private key, and only the signer may have that one; ") == true, "\(sentence ?? "")")
    let sec1 = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"
    let openSSH = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
    for text in [sec1, openSSH, try Self.pair.get().publicPEM + pem] {
      #expect(try error(text, mode: 0o600) == sentence)
    }
  }

  @Test("of another kind is refused")
  func otherKeys() throws {
    for algorithm in [KeyPair.Algorithm.p384, .rsa(2048)] {
      #expect(try error(KeyPair(algorithm).publicPEM)?.hasPrefix("is a public key that is damaged or not EC") == true)
    }
    for line in ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== me", "ecdsa-sha2-nistp384 AAAA", "ecdsa-sha2-nistp256 ?"] {
      #expect(try error(line)?.hasPrefix("is a public key that is damaged or not EC") == true, "\(line)")
    }
    for text in ["", "AuthKey_ABC1234567.p8", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"] {
      #expect(try error(text)?.hasPrefix("has no public key; write PEM (PUBLIC KEY)") == true, "\(text)")
    }
  }

  @Test("that is a directory gets no advice about a private key")
  func directory() throws {
    let directory = try TemporaryDirectory()
    let sentence = "The key file “\(directory.path)” is a directory; write the path of the file in it."
    let error = #expect(throws: SigningKeyError.self) { try PublicKeyFile.load(directory.path, keyID: nil) }
    #expect(error?.description == sentence)
  }

  @Test("off the curve is refused")
  func offCurve() throws {
    var point = [UInt8](repeating: 1, count: 64)
    point[0] = 7
    let text = "ecdsa-sha2-nistp256 " + Base64Text.encodeURL(PublicKeyFile.blobPrefix + point)
    #expect(try error(text)?.hasPrefix("is a public key that is damaged or not EC") == true)
  }
}
