import Bytes
import COpenSSL
public import Cryptography
import JSON

/// The public half of a P-256 key, which verifies ES256 signatures.
@safe public final class VerificationKey: @unchecked Sendable {
  // Safe: the pointer is valid from `init` to `deinit`. Sendable: an EVP_PKEY is only read after it is made.

  /// The identifier of the key, if known. The `kid` of a token should equal it.
  public let keyID: KeyID?
  private let pointer: OpaquePointer

  /// Takes over the caller's reference.
  init(adopting pointer: OpaquePointer, keyID: KeyID?) { unsafe (self.pointer, self.keyID) = (pointer, keyID) }

  /// Creates a key from the DER of a `SubjectPublicKeyInfo`. Returns nil if it is not an uncompressed point of P-256.
  convenience init?(subjectPublicKeyInfo der: Span<UInt8>, keyID: KeyID? = nil) {
    let prefix = ECDSASignature.keyPrefix
    guard der.count == prefix.count + 64, prefix.indices.allSatisfy({ der[$0] == prefix[$0] }),
      let key = unsafe KeyDER.decode(der, d2i_PUBKEY)
    else {
      ERR_clear_error()
      return nil
    }
    unsafe self.init(adopting: key, keyID: keyID)
  }

  deinit { unsafe EVP_PKEY_free(pointer) }

  /// Returns whether the JWS says ES256 and this key made its signature, 64 raw bytes (RFC 7515 §5.2).
  public func verifies(_ jws: JWS) -> Bool {
    guard jws.header?["alg"] == .string("ES256"), let signature = ECDSASignature(raw: jws.signature.span) else {
      return false
    }
    return verifies(signature, of: jws.signingInput.span)
  }

  func verifies(_ signature: ECDSASignature, of input: Span<UInt8>) -> Bool {
    guard let context = unsafe EVP_MD_CTX_new() else { return false }
    defer {
      unsafe EVP_MD_CTX_free(context)
      ERR_clear_error()
    }
    let der = signature.der
    return unsafe input.withUnsafeBufferPointer { input in
      unsafe EVP_DigestVerifyInit_ex(context, nil, "SHA256", nil, nil, pointer, nil) == 1
        && EVP_DigestVerify(context, der, der.count, input.baseAddress, input.count) == 1
    }
  }
}

extension VerificationKey {
  /// Reads the public key in a file, PEM of a `SubjectPublicKeyInfo` (RFC 7468 §13); nil if there is no such block.
  /// Throws if the file cannot be read, or its key is not one of P-256.
  public static func load(publicKeyFile path: String) throws(SigningKeyError) -> VerificationKey? {
    do throws(SigningKeyError) {
      try KeyFile.checkPlace(path)
      guard let der = KeyText.publicKeyDER(from: try KeyFile.read(path).text) else { return nil }
      guard let key = der.withBytes({ VerificationKey(subjectPublicKeyInfo: $0) }) else { throw .init(.otherPublicKey) }
      return key
    } catch { throw SigningKeyError(error.reason, path: path) }
  }
}
