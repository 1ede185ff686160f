import COpenSSL
import Cryptography

/// Owns an `EVP_PKEY` with a P-256 private key.
@safe final class PrivateKey: @unchecked Sendable {
  // Safe because the pointer is valid from `init` to `deinit`. Sendable because an EVP_PKEY is only read after it is
  // made, and OpenSSL counts references to it atomically.

  let pointer: OpaquePointer

  /// Takes over the caller's reference.
  init(adopting pointer: OpaquePointer) { unsafe self.pointer = pointer }

  deinit { unsafe EVP_PKEY_free(pointer) }

  /// A new random key.
  static func generate() throws(CryptographyError) -> PrivateKey {
    guard let context = unsafe EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else {
      throw .init(function: "EVP_PKEY_CTX_new_from_name")
    }
    defer { unsafe EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    guard unsafe EVP_PKEY_keygen_init(context) == 1, unsafe EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
      SecureMemory.use({ unsafe EVP_PKEY_generate(context, &key) }) == 1, let key = unsafe key
    else { throw .init(function: "EVP_PKEY_generate") }
    return unsafe PrivateKey(adopting: key)
  }

  /// The public half as PEM, `SubjectPublicKeyInfo`.
  func publicKeyPEM() throws(CryptographyError) -> String {
    guard let bio = unsafe BIO_new(BIO_s_mem()) else { throw .init(function: "BIO_new") }
    defer { unsafe BIO_free(bio) }
    var text = [UInt8](repeating: 0, count: 1024)
    guard unsafe PEM_write_bio_PUBKEY(bio, pointer) == 1,
      case let count = unsafe BIO_read(bio, &text, Int32(text.count)), count > 0
    else { throw .init(function: "PEM_write_bio_PUBKEY") }
    return String(decoding: text.prefix(Int(count)), as: UTF8.self)
  }

  /// A key that shares the same `EVP_PKEY` for verification.
  func verificationKey(keyID: KeyID) -> VerificationKey {
    unsafe EVP_PKEY_up_ref(pointer)
    return unsafe VerificationKey(adopting: pointer, keyID: keyID)
  }
}
