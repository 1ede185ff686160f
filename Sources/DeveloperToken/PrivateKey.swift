import CLockedMemory
import COpenSSL

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

/// An ECDSA signature over P-256 as JWS carries it: `r‖s`, each 32 bytes, big-endian, left-padded (RFC 7518 §3.4).
package struct ECDSASignature {
  static let count = 64
  private static let half = 32
  private static let integerTag: UInt8 = 0x02
  private static let sequenceTag: UInt8 = 0x30
  /// `SEQUENCE { INTEGER, INTEGER }` with two integers of 33 bytes.
  static let longestDER = 72

  var raw = InlineArray<64, UInt8>(repeating: 0)

  /// The 64 bytes as they stand in a token; nil if they are not 64.
  package init?(raw bytes: Span<UInt8>) {
    guard bytes.count == Self.count else { return nil }
    for index in bytes.indices { raw[index] = bytes[index] }
  }

  /// From the DER that OpenSSL makes (RFC 3279 §2.2.3); nil unless it is exactly that, in its only encoding.
  init?(der: Span<UInt8>) {
    // The contents never exceed 70 bytes, so the length is a single byte (X.690 §8.1.3.4 and §10.1).
    guard der.count >= 8, der.count <= Self.longestDER, der[0] == Self.sequenceTag, Int(der[1]) == der.count - 2,
      let afterR = readInteger(in: der, at: 2, endingAt: Self.half),
      let afterS = readInteger(in: der, at: afterR, endingAt: Self.count),
      afterS == der.count
    else { return nil }
  }

  /// Reads a positive INTEGER at `start` into the 32 bytes that end at `end`; where it stops, or nil.
  private mutating func readInteger(in der: Span<UInt8>, at start: Int, endingAt end: Int) -> Int? {
    guard start + 2 < der.count, der[start] == Self.integerTag else { return nil }
    var first = start + 2
    let stop = first + Int(der[start + 1])
    guard first < stop, stop <= der.count, der[first] < 0x80 else { return nil }
    if der[first] == 0 {
      // A leading zero only where the sign bit would else be set (X.690 §8.3.2); a lone zero is no r or s.
      guard first + 1 < stop, der[first + 1] >= 0x80 else { return nil }
      first += 1
    }
    guard stop - first <= Self.half else { return nil }
    for index in first..<stop { raw[end - (stop - index)] = der[index] }
    return stop
  }

  /// The DER form, which OpenSSL verifies.
  package var der: [UInt8] {
    var integers: [UInt8] = []
    appendInteger(from: 0, to: &integers)
    appendInteger(from: Self.half, to: &integers)
    return [Self.sequenceTag, UInt8(integers.count)] + integers
  }

  private func appendInteger(from start: Int, to output: inout [UInt8]) {
    let end = start + Self.half
    var first = start
    while first < end - 1, raw[first] == 0 { first += 1 }
    let needsZero = raw[first] >= 0x80
    output.append(Self.integerTag)
    output.append(UInt8(end - first + (needsZero ? 1 : 0)))
    if needsZero { output.append(0) }
    for index in first..<end { output.append(raw[index]) }
  }
}

/// OpenSSL could not do what it does for every sound key: out of memory, or no random numbers.
public struct CryptographyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The OpenSSL function that failed. Its own error text may quote its input, so it is left out.
  let function: String
  /// Whether it failed for want of memory.
  let isOutOfMemory: Bool

  /// The failure of that function just now. Empties the thread's queue of errors.
  public init(function: String) {
    self.function = function
    isOutOfMemory = locked_memory_take_failure() != 0
    ERR_clear_error()
  }

  /// The failure of that function if there was no memory for it; nil if it failed for any other reason.
  static func outOfMemory(in function: String) -> CryptographyError? {
    let error = CryptographyError(function: function)
    return error.isOutOfMemory ? error : nil
  }

  /// One sentence that names the function.
  public var description: String {
    isOutOfMemory ? "OpenSSL ran out of memory in \(function)." : "OpenSSL's \(function) failed."
  }
}

/// What OpenSSL makes at first use and keeps for the life of the process: providers, algorithms, decoders, error strings.
enum OpenSSLCaches {
  /// Has OpenSSL do once with a random key what it does later with the MusicKit key.
  ///
  /// Its caches take 300 KB: made in locked memory, they would leave no room for the key. A failure here shows again
  /// where it matters.
  static func fill() { filled }

  private static let filled: Void = {
    defer { ERR_clear_error() }
    guard let random = unsafe copenssl_generate_p256() else { return }
    defer { unsafe EVP_PKEY_free(random) }
    guard let key = unsafe decoded(random) else { return }
    defer { unsafe EVP_PKEY_free(key) }
    unsafe sign(with: key)
  }()

  /// The key after a round trip through PKCS #8 in DER.
  private static func decoded(_ key: OpaquePointer) -> OpaquePointer? {
    guard let info = unsafe EVP_PKEY2PKCS8(key) else { return nil }
    defer { unsafe PKCS8_PRIV_KEY_INFO_free(info) }
    var der: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_PKCS8_PRIV_KEY_INFO(info, &der)
    guard let der = unsafe der, count > 0 else { return nil }
    defer { unsafe CRYPTO_clear_free(der, Int(count), nil, 0) }
    var cursor = unsafe UnsafePointer<UInt8>?(der)
    guard let parsed = unsafe d2i_PKCS8_PRIV_KEY_INFO(nil, &cursor, Int(count)) else { return nil }
    defer { unsafe PKCS8_PRIV_KEY_INFO_free(parsed) }
    return unsafe EVP_PKCS82PKEY(parsed)
  }

  private static func sign(with key: OpaquePointer) {
    guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else { return }
    defer { unsafe EVP_PKEY_CTX_free(context) }
    guard unsafe EVP_PKEY_sign_init(context) == 1, unsafe EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) == 1
    else { return }
    let digest = [UInt8](repeating: 0, count: 32)
    var signature = [UInt8](repeating: 0, count: ECDSASignature.longestDER)
    var count = signature.count
    unsafe EVP_PKEY_sign(context, &signature, &count, digest, digest.count)
  }
}
