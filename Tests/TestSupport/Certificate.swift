import COpenSSL
import Glibc

/// A fresh X.509 certificate for a test.
///
/// `@unchecked Sendable`: the certificate never changes after its creation, and OpenSSL counts references atomically.
@safe public final class Certificate: @unchecked Sendable {
  /// The key that the certificate certifies.
  public let key: KeyPair
  let certificate: OpaquePointer

  /// Creates a certificate.
  /// - Parameters:
  ///   - commonName: The common name of the subject.
  ///   - key: The key that the certificate certifies.
  ///   - issuer: The certificate that signs this one; nil for a self-signed certificate.
  ///   - isAuthority: Whether the certificate may sign others.
  ///   - alternativeNames: The names in OpenSSL's syntax: `DNS:localhost`, `IP:127.0.0.1`, `URI:spiffe://…`.
  ///   - extendedKeyUsage: The purpose in OpenSSL's syntax: `clientAuth`; nil for any purpose.
  ///   - notBefore: The start of validity in seconds from now, usually negative.
  ///   - notAfter: The end of validity in seconds from now.
  public init(
    _ commonName: String = "localhost", key: KeyPair, issuer: Certificate? = nil, isAuthority: Bool = false,
    alternativeNames: [String] = ["DNS:localhost", "IP:127.0.0.1", "IP:::1"],
    extendedKeyUsage: String? = nil, notBefore: Int = -3600, notAfter: Int = 86_400
  ) throws {
    guard let certificate = unsafe X509_new() else { throw TestFailure("There is no memory for a certificate.") }
    self.key = key
    unsafe self.certificate = certificate
    unsafe X509_set_version(certificate, 2)
    unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), UInt64.random(in: 1..<(1 << 63)))
    unsafe X509_gmtime_adj(X509_getm_notBefore(certificate), notBefore)
    unsafe X509_gmtime_adj(X509_getm_notAfter(certificate), notAfter)
    let name = unsafe X509_get_subject_name(certificate)
    unsafe X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, commonName, -1, -1, 0)
    unsafe X509_set_issuer_name(certificate, issuer.map { unsafe X509_get_subject_name($0.certificate) } ?? name)
    unsafe X509_set_pubkey(certificate, key.key)
    try add(NID_basic_constraints, isAuthority ? "critical,CA:TRUE" : "critical,CA:FALSE", issuer)
    try add(NID_subject_key_identifier, "hash", issuer)
    try add(NID_authority_key_identifier, "keyid", issuer)
    try add(NID_key_usage, isAuthority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature", issuer)
    if let extendedKeyUsage { try add(NID_ext_key_usage, extendedKeyUsage, issuer) }
    if !isAuthority, !alternativeNames.isEmpty {
      try add(NID_subject_alt_name, alternativeNames.joined(separator: ","), issuer)
    }
    guard unsafe X509_sign(certificate, (issuer?.key ?? key).key, EVP_sha256()) > 0 else {
      throw TestFailure("The certificate of \(commonName) cannot be signed.")
    }
  }

  deinit { unsafe X509_free(certificate) }

  /// The certificate as PEM.
  public var pem: String { unsafe PEMText { bio in unsafe PEM_write_bio_X509(bio, certificate) }.text }

  private func add(_ identifier: Int32, _ value: String, _ issuer: Certificate?) throws {
    var context = unsafe X509V3_CTX()
    unsafe X509V3_set_ctx(&context, (issuer ?? self).certificate, certificate, nil, nil, 0)
    let `extension` = unsafe X509V3_EXT_conf_nid(nil, &context, identifier, value)
    defer { unsafe X509_EXTENSION_free(`extension`) }
    guard unsafe `extension` != nil, unsafe X509_add_ext(certificate, `extension`, -1) == 1 else {
      throw TestFailure("OpenSSL does not take the extension '\(value)'.")
    }
  }
}
