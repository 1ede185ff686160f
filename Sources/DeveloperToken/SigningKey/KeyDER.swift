import COpenSSL
import Cryptography

/// Identifies DER structures with OpenSSL's decoders.
enum KeyDER {
  /// Parses the P-256 key in a PKCS#8 `PrivateKeyInfo` (RFC 5208 §5). The error names the kind of structure found instead.
  static func privateKey(_ der: SecretBytes) throws(SigningKeyError) -> PrivateKey {
    // A failed attempt leaves entries in OpenSSL's queue, which a later TLS call of this thread must not find.
    defer { ERR_clear_error() }
    return try der.withBytes { bytes throws(SigningKeyError) in
      try checkLength(bytes)
      let parsed = unsafe SecureMemory.use { unsafe decode(bytes, d2i_PKCS8_PRIV_KEY_INFO) }
      guard let info = unsafe parsed else {
        let error = CryptographyError.outOfMemory(in: "d2i_PKCS8_PRIV_KEY_INFO")
        throw .init(error.map { .cryptography($0) } ?? otherKind(bytes))
      }
      defer { unsafe PKCS8_PRIV_KEY_INFO_free(info) }
      guard let key = unsafe keyPair(in: info) else {
        let error = CryptographyError.outOfMemory(in: "EVP_PKCS82PKEY")
        throw .init(error.map { .cryptography($0) } ?? .damaged)
      }
      let owned = unsafe PrivateKey(adopting: key)
      let name = unsafe algorithm(of: key)
      guard name == "P-256" else {
        let error = CryptographyError.outOfMemory(in: "EVP_PKEY_get_group_name")
        throw .init(error.map { .cryptography($0) } ?? .wrongAlgorithm(name))
      }
      return owned
    }
  }

  /// Decodes only a key of the right kind in locked memory: OpenSSL keeps what it loads to decode any other kind.
  private static func keyPair(in info: OpaquePointer) -> OpaquePointer? {
    var algorithm: OpaquePointer?
    guard unsafe PKCS8_pkey_get0(&algorithm, nil, nil, nil, info) == 1, let algorithm = unsafe algorithm,
      unsafe OBJ_obj2nid(algorithm) == NID_X9_62_id_ecPublicKey
    else { return unsafe EVP_PKCS82PKEY(info) }
    return unsafe SecureMemory.use { unsafe EVP_PKCS82PKEY(info) }
  }

  /// Checks that the outer SEQUENCE spans all bytes. Fewer bytes are a cut-off copy; more are appended to the key.
  private static func checkLength(_ bytes: Span<UInt8>) throws(SigningKeyError) {
    guard bytes.count >= 2 else { throw .init(.truncated) }
    guard bytes[0] == 0x30 else { throw .init(.wrongKind(.notAKey)) }
    let lengthBytes = bytes[1] < 0x80 ? 0 : Int(bytes[1] & 0x7F)
    guard lengthBytes <= 2, bytes.count >= 2 + lengthBytes else { throw .init(.truncated) }
    var length = lengthBytes == 0 ? Int(bytes[1]) : 0
    for index in 0..<lengthBytes { length = length << 8 | Int(bytes[2 + index]) }
    let total = 2 + lengthBytes + length
    guard bytes.count >= total else { throw .init(.truncated) }
    guard bytes.count == total else { throw .init(.damaged) }
  }

  private static func otherKind(_ bytes: Span<UInt8>) -> SigningKeyError.Reason {
    if unsafe decodes(bytes, d2i_PUBKEY, EVP_PKEY_free) { return .wrongKind(.publicKey) }
    if unsafe decodes(bytes, d2i_X509, X509_free) { return .wrongKind(.certificate) }
    if unsafe decodes(bytes, d2i_X509_REQ, X509_REQ_free) { return .wrongKind(.certificateRequest) }
    if unsafe decodes(bytes, d2i_PKCS12, PKCS12_free) { return .wrongKind(.pkcs12) }
    // EncryptedPrivateKeyInfo has the same shape as X509_SIG: an algorithm and an octet string (RFC 5208 §6).
    if unsafe decodes(bytes, d2i_X509_SIG, X509_SIG_free) { return .wrongKind(.encryptedPrivateKey) }
    return traditionalKind(bytes)
  }

  private static func traditionalKind(_ bytes: Span<UInt8>) -> SigningKeyError.Reason {
    guard let key = unsafe decode(bytes, d2i_AutoPrivateKey) else { return .wrongKind(.notAKey) }
    defer { unsafe EVP_PKEY_free(key) }
    if unsafe EVP_PKEY_is_a(key, "EC") == 1 { return .wrongKind(.ecPrivateKey) }
    return .wrongKind(unsafe EVP_PKEY_is_a(key, "RSA") == 1 ? .rsaPrivateKey : .dsaPrivateKey)
  }

  private static func decodes<Object>(
    _ bytes: Span<UInt8>,
    _ function: (UnsafeMutablePointer<Object?>?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, Int) -> Object?,
    _ free: (Object?) -> Void
  ) -> Bool {
    guard let object = unsafe decode(bytes, function) else { return false }
    free(object)
    return true
  }

  /// Runs one of OpenSSL's `d2i` functions; nil if it fails. `checkLength` has made sure that nothing follows.
  static func decode<Object>(
    _ bytes: Span<UInt8>,
    _ function: (UnsafeMutablePointer<Object?>?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, Int) -> Object?
  ) -> Object? {
    unsafe bytes.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      return unsafe function(nil, &cursor, buffer.count)
    }
  }

  /// Returns the curve of an EC key, otherwise the algorithm: "P-256", "P-384", "RSA", "Ed25519".
  private static func algorithm(of key: OpaquePointer) -> String {
    var name = [CChar](repeating: 0, count: 64)
    var count = 0
    let isCurve = unsafe EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1
    let curve = String(decoding: name.prefix(count).map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    let type = unsafe EVP_PKEY_get0_type_name(key).map { unsafe String(cString: $0) } ?? "unknown"
    switch isCurve ? curve : type {
    case "prime256v1": return "P-256"
    case "secp384r1": return "EC P-384"
    case "secp521r1": return "EC P-521"
    case "ED25519": return "Ed25519"
    case "ED448": return "Ed448"
    case let name: return isCurve ? "EC \(name)" : name
    }
  }
}

/// A kind of text that is commonly mistaken for a MusicKit private key.
public enum KeyKind: Sendable, Hashable, CaseIterable {
  case empty, path, json, certificate, certificateRequest, publicKey, rsaPrivateKey, ecPrivateKey, dsaPrivateKey
  case ecParameters, encryptedPrivateKey, opensshPrivateKey, pgp, pkcs12, jwt, severalBlocks, otherPEM, utf16, binary
  case der, notAKey

  /// The sentence without its subject.
  var predicate: String {
    switch self {
    case .empty: "is empty."
    case .path: "is one word, not a key; if it is the path of the key's file, write it as musickit.keyFile."
    case .json: "is JSON; write only the key in it."
    case .ecPrivateKey:
      "is a private key in the older SEC1 form (EC PRIVATE KEY), which Apple does not issue; if it is the right"
        + " key, openssl pkcs8 -topk8 -nocrypt -in FILE converts it."
    case .der:
      "is a private key in binary (DER), and Apple's file is text (PEM); if it is the right key, openssl pkcs8 -topk8"
        + " -nocrypt -inform DER -in FILE -out AuthKey_<KEYID>.p8 converts it."
    case .encryptedPrivateKey:
      "is an encrypted private key, and the server accepts no pass phrase; openssl pkcs8 -in FILE decrypts it."
    case .jwt:
      "is a token (JWT), not the key that signs it; the server makes tokens itself. \(SigningKeyError.Reason.advice)"
    case .utf16: "is text in UTF-16; save it as UTF-8 or plain ASCII."
    case .severalBlocks: "has several PEM blocks; it must have one, the private key."
    case .certificate: Self.other("a certificate")
    case .certificateRequest: Self.other("a certificate signing request")
    case .publicKey: Self.other("a public key")
    case .rsaPrivateKey: Self.other("an RSA private key")
    case .dsaPrivateKey: Self.other("a DSA private key")
    case .ecParameters: Self.other("a set of EC parameters")
    case .opensshPrivateKey: Self.other("an OpenSSH private key")
    case .pgp: Self.other("a PGP block")
    case .pkcs12: Self.other("a PKCS#12 (.p12) file")
    case .otherPEM: Self.other("a PEM block of another kind")
    case .binary: Self.other("a binary file")
    case .notAKey: Self.other("something else")
    }
  }

  private static func other(_ name: String) -> String {
    "is \(name), not a private key for MusicKit. \(SigningKeyError.Reason.advice)"
  }

  /// Returns the kind for a PEM label (RFC 7468 §4) without spaces, which pasting may remove; nil for the right one.
  static func labelled(_ label: String) -> KeyKind? {
    switch label {
    case "PRIVATEKEY": nil
    case "CERTIFICATE", "X509CERTIFICATE", "TRUSTEDCERTIFICATE", "PKCS7", "CMS": .certificate
    case "CERTIFICATEREQUEST", "NEWCERTIFICATEREQUEST": .certificateRequest
    case "PUBLICKEY", "RSAPUBLICKEY", "SSH2PUBLICKEY": .publicKey
    case "RSAPRIVATEKEY": .rsaPrivateKey
    case "ECPRIVATEKEY": .ecPrivateKey
    case "DSAPRIVATEKEY": .dsaPrivateKey
    case "ECPARAMETERS": .ecParameters
    case "ENCRYPTEDPRIVATEKEY": .encryptedPrivateKey
    case "OPENSSHPRIVATEKEY": .opensshPrivateKey
    case "PGPPRIVATEKEYBLOCK", "PGPPUBLICKEYBLOCK", "PGPMESSAGE": .pgp
    default: .otherPEM
    }
  }
}
