import COpenSSL

/// A self-signed certificate and its key for a server that only lives for a test or a demonstration.
public struct ThrowawayCertificate: Sendable {
  /// The certificate in PEM, which clients have to trust.
  public let certificatePEM: String
  /// The private key in PEM.
  public let keyPEM: String

  /// Generates a P-256 key and a certificate for 30 days and these names: `DNS:localhost`, `IP:127.0.0.1`.
  public init(for names: [String]) throws(TLSError) {
    let failure = TLSError(
      .internalFailure, "OpenSSL cannot create a certificate for \(names.joined(separator: ", ")).")
    guard let key = unsafe copenssl_generate_p256() else { throw failure }
    defer { unsafe EVP_PKEY_free(key) }
    guard let certificate = unsafe X509_new() else { throw failure }
    defer { unsafe X509_free(certificate) }
    unsafe X509_set_version(certificate, 2)
    unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), UInt64.random(in: 1..<(1 << 63)))
    unsafe X509_gmtime_adj(X509_getm_notBefore(certificate), -3600)
    unsafe X509_gmtime_adj(X509_getm_notAfter(certificate), 30 * 86_400)
    let name = unsafe X509_get_subject_name(certificate)
    unsafe X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, "throwaway", -1, -1, 0)
    unsafe X509_set_issuer_name(certificate, name)
    unsafe X509_set_pubkey(certificate, key)
    let extensions = [
      (NID_subject_key_identifier, "hash"), (NID_basic_constraints, "critical,CA:TRUE"),
      (NID_subject_alt_name, names.joined(separator: ",")),
    ]
    for (identifier, value) in extensions {
      guard unsafe Self.add(identifier, value, to: certificate) else { throw failure }
    }
    guard unsafe X509_sign(certificate, key, EVP_sha256()) > 0,
      let certificatePEM = unsafe Self.text({ bio in unsafe PEM_write_bio_X509(bio, certificate) }),
      let keyPEM = unsafe Self.text({ bio in unsafe PEM_write_bio_PrivateKey(bio, key, nil, nil, 0, nil, nil) })
    else { throw failure }
    (self.certificatePEM, self.keyPEM) = (certificatePEM, keyPEM)
  }

  private static func add(_ identifier: Int32, _ value: String, to certificate: OpaquePointer) -> Bool {
    var context = unsafe X509V3_CTX()
    unsafe X509V3_set_ctx(&context, certificate, certificate, nil, nil, 0)
    let `extension` = unsafe X509V3_EXT_conf_nid(nil, &context, identifier, value)
    defer { unsafe X509_EXTENSION_free(`extension`) }
    return unsafe `extension` != nil && X509_add_ext(certificate, `extension`, -1) == 1
  }

  private static func text(_ write: (OpaquePointer) -> Int32) -> String? {
    let bytes = unsafe Certificate.bytes(atMost: 8192, write)
    return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
  }
}
