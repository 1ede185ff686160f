import Bytes
import COpenSSL
import Cryptography
import TestSupport

@testable import Access
@testable import DeveloperToken

/// A new key pair of an issuer: signs as the test requires, and writes its public half as a JWK.
///
/// `@unchecked Sendable`: the key never changes after its creation, and OpenSSL counts references to it atomically.
@safe final class TestKey: @unchecked Sendable {
  /// The kind of a key.
  enum Kind {
    case p256
    case rsa(Int32)
    case ed25519
  }

  let kind: Kind
  private let key: OpaquePointer

  init(_ kind: Kind) throws {
    let name =
      switch kind {
      case .p256: "EC"
      case .rsa: "RSA"
      case .ed25519: "ED25519"
      }
    let context = unsafe EVP_PKEY_CTX_new_from_name(nil, name, nil)
    defer { unsafe EVP_PKEY_CTX_free(context) }
    unsafe EVP_PKEY_keygen_init(context)
    switch kind {
    case .p256: unsafe EVP_PKEY_CTX_set_group_name(context, "P-256")
    case .rsa(let bits): unsafe EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits)
    case .ed25519: break
    }
    var key: OpaquePointer?
    guard unsafe EVP_PKEY_generate(context, &key) == 1, let key = unsafe key else {
      throw TestFailure("OpenSSL cannot make a key: \(kind).")
    }
    self.kind = kind
    unsafe self.key = key
  }

  deinit { unsafe EVP_PKEY_free(key) }

  // MARK: The public half

  /// `SubjectPublicKeyInfo` in DER.
  var subjectPublicKeyInfo: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: max(0, Int(unsafe i2d_PUBKEY(key, nil))))
    unsafe bytes.withUnsafeMutableBufferPointer { buffer in
      var cursor = buffer.baseAddress
      unsafe _ = i2d_PUBKEY(key, &cursor)
    }
    return bytes
  }

  /// `SubjectPublicKeyInfo` in PEM.
  var publicPEM: String {
    let bio = unsafe BIO_new(BIO_s_mem())
    defer { unsafe BIO_free(bio) }
    var buffer = [UInt8](repeating: 0, count: 8192)
    unsafe _ = PEM_write_bio_PUBKEY(bio, key)
    let count = unsafe BIO_read(bio, &buffer, Int32(buffer.count))
    return String(decoding: buffer.prefix(max(0, Int(count))), as: UTF8.self)
  }

  /// The members of the JWK that contain the public key.
  var material: [String: [UInt8]] {
    let info = subjectPublicKeyInfo
    switch kind {
    case .p256: return ["x": Array(info.suffix(64).prefix(32)), "y": Array(info.suffix(32))]
    case .rsa: return ["n": number("n"), "e": number("e")]
    case .ed25519: return ["x": Array(info.suffix(32))]
    }
  }

  private func number(_ name: String) -> [UInt8] {
    var number: OpaquePointer?
    guard unsafe EVP_PKEY_get_bn_param(key, name, &number) == 1 else { return [] }
    defer { unsafe BN_free(number) }
    var bytes = [UInt8](repeating: 0, count: Int(unsafe BN_num_bits(number) + 7) / 8)
    unsafe _ = BN_bn2bin(number, &bytes)
    return bytes
  }

  /// The public key as a JWK.
  ///
  /// - Parameters:
  ///   - keyID: The `kid`; nil for none.
  ///   - more: Further members, as JSON; they replace those of the same name, and an empty one removes it.
  func jwk(_ keyID: String? = "key", _ more: [String: String] = [:]) -> String {
    var members: [String: String] =
      switch kind {
      case .p256: ["kty": #""EC""#, "crv": #""P-256""#]
      case .rsa: ["kty": #""RSA""#]
      case .ed25519: ["kty": #""OKP""#, "crv": #""Ed25519""#]
      }
    members["kid"] = keyID.map { "\"\($0)\"" }
    for (name, bytes) in material { members[name] = "\"\(base64URL(bytes))\"" }
    members.merge(more) { $1 }
    let written = members.filter { !$0.value.isEmpty }.map { "\"\($0.key)\":\($0.value)" }.sorted()
    return "{\(written.joined(separator: ","))}"
  }

  // MARK: Signatures

  /// The default algorithm of the key.
  var algorithm: String {
    switch kind {
    case .p256: "ES256"
    case .rsa: "RS256"
    case .ed25519: "EdDSA"
    }
  }

  /// The signature in the form of JWS.
  ///
  /// - Parameter saltLength: For PSS; nil for the hash's length.
  func signature(_ algorithm: String, of input: [UInt8], saltLength: Int32? = nil) -> [UInt8] {
    let bytes = derSignature(algorithm, of: input, saltLength: saltLength)
    guard algorithm == "ES256" else { return bytes }
    return ECDSASignature(der: bytes.span).map { signature in signature.raw.indices.map { signature.raw[$0] } } ?? []
  }

  /// The signature in the form of OpenSSL.
  func derSignature(_ algorithm: String, of input: [UInt8], saltLength: Int32? = nil) -> [UInt8] {
    let context = unsafe EVP_MD_CTX_new()
    defer { unsafe EVP_MD_CTX_free(context) }
    var keyContext: OpaquePointer?
    let digest = algorithm == "EdDSA" ? nil : "SHA256"
    unsafe EVP_DigestSignInit_ex(context, &keyContext, digest, nil, nil, key, nil)
    if algorithm == "PS256" {
      unsafe EVP_PKEY_CTX_set_rsa_padding(keyContext, RSA_PKCS1_PSS_PADDING)
      unsafe EVP_PKEY_CTX_set_rsa_pss_saltlen(keyContext, saltLength ?? RSA_PSS_SALTLEN_DIGEST)
    }
    var signature = [UInt8](repeating: 0, count: 1024)
    var count = signature.count
    let result = unsafe EVP_DigestSign(context, &signature, &count, input, input.count)
    return result == 1 ? Array(signature[..<count]) : []
  }

  /// A JWT with this header and these claims, signed by the key whatever they contain.
  func token(header: String, claims: String, _ algorithm: String? = nil) -> String {
    let input = "\(base64URL(Array(header.utf8))).\(base64URL(Array(claims.utf8)))"
    return "\(input).\(base64URL(signature(algorithm ?? self.algorithm, of: Array(input.utf8))))"
  }
}

/// Base64url without padding.
func base64URL(_ bytes: [UInt8]) -> String {
  var output: [UInt8] = []
  Base64.appendURL(bytes.span, to: &output)
  return String(decoding: output, as: UTF8.self)
}
