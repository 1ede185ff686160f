import Bytes
import COpenSSL
import Cryptography
import Locks

/// Prepared contexts for ES256 (RFC 7518 §3.4), which cost a fifth of a signature. They belong to one thread at a time.
@safe private final class Signer {
  // Safe: the context is valid from `init` to `deinit`, and holds a reference to the key.
  private let context: OpaquePointer
  private let hasher: SHA256.Hasher

  init(_ key: PrivateKey) throws(CryptographyError) {
    hasher = try SHA256.Hasher()
    guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key.pointer, nil) else {
      throw .init(function: "EVP_PKEY_CTX_new_from_pkey")
    }
    // Now all properties are set, so `deinit` frees the context after an error.
    unsafe self.context = context
    guard unsafe EVP_PKEY_sign_init(context) == 1,
      unsafe EVP_PKEY_CTX_set_signature_md(context, SHA256.algorithm.pointer) == 1
    else { throw .init(function: "EVP_PKEY_sign_init") }
  }

  deinit { unsafe EVP_PKEY_CTX_free(context) }

  func signature(of input: Span<UInt8>) throws(CryptographyError) -> ECDSASignature {
    let digest = try hasher.digest(of: input)
    var der = InlineArray<72, UInt8>(repeating: 0)
    var count = ECDSASignature.longestDER
    var derSpan = der.mutableSpan
    let result = unsafe derSpan.withUnsafeMutableBufferPointer { der in
      unsafe digest.span.withUnsafeBufferPointer { digest in
        // The nonce and every value computed from it and the key are as secret as the key.
        SecureMemory.use { unsafe EVP_PKEY_sign(context, der.baseAddress, &count, digest.baseAddress, digest.count) }
      }
    }
    guard result == 1, count <= der.count, let signature = ECDSASignature(der: der.span.extracting(0..<count)) else {
      throw .init(function: "EVP_PKEY_sign")
    }
    return signature
  }
}

/// The owner of an `EVP_PKEY` with a P-256 private key. Any thread may use it.
@safe final class PrivateKey: @unchecked Sendable {
  // Safe: the pointer is valid from `init` to `deinit`. Sendable: an EVP_PKEY is only read after it is made, OpenSSL
  // counts references to it atomically, and `idle` is used only inside `monitor`. A signer belongs to one thread.

  let pointer: OpaquePointer
  private let monitor = Monitor()
  /// At most as many as threads that have signed at once.
  private var idle: [Signer] = []

  /// Takes over the caller's reference.
  init(adopting pointer: OpaquePointer) { unsafe self.pointer = pointer }
  deinit { unsafe EVP_PKEY_free(pointer) }

  func signature(of input: Span<UInt8>) throws(CryptographyError) -> ECDSASignature {
    let signer = if let idle = monitor.withLock({ idle.popLast() }) { idle } else { try Signer(self) }
    // A context that failed is not reused.
    let signature = try signer.signature(of: input)
    monitor.withLock { idle.append(signer) }
    return signature
  }

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

  func publicKeyPEM() throws(CryptographyError) -> String {
    guard let bio = unsafe BIO_new(BIO_s_mem()) else { throw .init(function: "BIO_new") }
    defer { unsafe BIO_free(bio) }
    var text = [UInt8](repeating: 0, count: 1024)
    guard unsafe PEM_write_bio_PUBKEY(bio, pointer) == 1,
      case let count = unsafe BIO_read(bio, &text, Int32(text.count)), count > 0
    else { throw .init(function: "PEM_write_bio_PUBKEY") }
    return String(decoding: text.prefix(Int(count)), as: UTF8.self)
  }

  func publicKeyDER() throws(CryptographyError) -> [UInt8] {
    let length = unsafe i2d_PUBKEY(pointer, nil)
    guard length > 0 else { throw .init(function: "i2d_PUBKEY") }
    return unsafe [UInt8](unsafeUninitializedCapacity: Int(length)) { buffer, count in
      var end = buffer.baseAddress
      // OpenSSL writes as many bytes as it has just counted, and moves the pointer behind them.
      count = Int(unsafe i2d_PUBKEY(pointer, &end))
    }
  }

  /// Returns HMAC-SHA-256 of `label` with the private number as its key.
  func secret(for label: StaticString) throws(CryptographyError) -> SecretBytes {
    let number = try SecretBytes(capacity: 32) { (output: inout OutputSpan<UInt8>) throws(CryptographyError) in
      try appendNumber(to: &output)
    }
    var text: [UInt8] = []
    text.append(label)
    let code = try MessageAuthenticator(key: number).code(of: text.span)
    return SecretBytes(copying: code.span)
  }

  /// Appends the private number, 32 bytes, most significant first.
  private func appendNumber(to output: inout OutputSpan<UInt8>) throws(CryptographyError) {
    var bytes = InlineArray<32, UInt8>(repeating: 0)
    var span = bytes.mutableSpan
    let isDone = unsafe span.withUnsafeMutableBufferPointer { buffer in
      SecureMemory.use {
        var number: OpaquePointer?
        defer { unsafe BN_clear_free(number) }
        return unsafe EVP_PKEY_get_bn_param(pointer, OSSL_PKEY_PARAM_PRIV_KEY, &number) == 1
          && BN_bn2binpad(number, buffer.baseAddress, 32) == 32
      }
    }
    defer { unsafe span.withUnsafeMutableBufferPointer { unsafe OPENSSL_cleanse($0.baseAddress, $0.count) } }
    guard isDone else { throw .init(function: "EVP_PKEY_get_bn_param") }
    for index in 0..<32 { output.append(span[index]) }
  }

  /// Returns a key that shares the same `EVP_PKEY` for verification.
  func verificationKey(keyID: KeyID) -> VerificationKey {
    unsafe EVP_PKEY_up_ref(pointer)
    return unsafe VerificationKey(adopting: pointer, keyID: keyID)
  }
}
