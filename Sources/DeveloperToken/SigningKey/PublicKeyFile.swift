import Bytes
import Cryptography

/// The public half of a P-256 key, from a file: PEM of a `SubjectPublicKeyInfo` (RFC 7468 §13), or a line of OpenSSH.
struct PublicKeyFile: Sendable {
  let verificationKey: VerificationKey
  /// The coordinates, 32 bytes each.
  let point: [UInt8]

  /// The `SubjectPublicKeyInfo`.
  var der: [UInt8] { ECDSASignature.keyPrefix + point }

  /// Reads a file. One with a private key is an error.
  static func load(_ path: String, keyID: KeyID?) throws(SigningKeyError) -> PublicKeyFile {
    do throws(SigningKeyError) {
      try KeyFile.checkPlace(path)
      let text = try KeyFile.read(path).text
      if text.withBytes({ $0.firstIndex(of: "PRIVATE KEY") }) != nil { throw .init(.privateInPlaceOfPublic) }
      if let der = KeyText.publicKeyDER(from: text) {
        return try PublicKeyFile(der.withBytes { point(after: ECDSASignature.keyPrefix, in: $0) }, keyID)
      }
      guard let blob = blob(in: text) else { throw .init(.noPublicKey) }
      return try PublicKeyFile(point(after: blobPrefix, in: blob.span), keyID)
    } catch { throw SigningKeyError(error.reason, path: path) }
  }

  private init(_ point: [UInt8]?, _ keyID: KeyID?) throws(SigningKeyError) {
    guard let point,
      let key = VerificationKey(subjectPublicKeyInfo: (ECDSASignature.keyPrefix + point).span, keyID: keyID)
    else { throw .init(.otherPublicKey) }
    (self.point, verificationKey) = (point, key)
  }

  private static func point(after prefix: [UInt8], in bytes: Span<UInt8>) -> [UInt8]? {
    guard bytes.count == prefix.count + 64, prefix.indices.allSatisfy({ bytes[$0] == prefix[$0] }) else { return nil }
    return (prefix.count..<bytes.count).map { bytes[$0] }
  }

  /// Returns the second word of a line such as `ecdsa-sha2-nistp256 AAAA… comment`, decoded; nil for other text.
  private static func blob(in text: SecretBytes) -> [UInt8]? {
    text.withBytes { bytes in
      let words = bytes.indices.map { bytes[$0] }.split { $0 == 0x20 || (0x09...0x0D).contains($0) }
      guard words.count >= 2, ["ecdsa-", "ssh-", "sk-"].contains(where: { words[0].starts(with: $0.utf8) })
      else { return nil }
      let text = Array(words[1])
      var blob: [UInt8] = []
      var isBase64 = false
      blob.append(addingCapacity: text.count) { isBase64 = Base64.decodePasted(text.span, into: &$0) }
      return isBase64 ? blob : []
    }
  }

  /// The public key of OpenSSH up to the coordinates: two names, and the mark of an uncompressed point (RFC 5656 §3.1).
  static let blobPrefix: [UInt8] =
    [0, 0, 0, 19] + Array("ecdsa-sha2-nistp256".utf8) + [0, 0, 0, 8] + Array("nistp256".utf8) + [0, 0, 0, 65, 0x04]
}
