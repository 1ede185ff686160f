import Bytes
import COpenSSL
import Glibc

/// The identities in a client's certificate, which is verified against the client CAs.
///
/// The names are those of the subject alternative name extension (RFC 5280 §4.2.1.6). The common name is not used,
/// because it is free-form text (RFC 9525 §2). If the extension is malformed, the certificate has no names.
public final class ClientCertificate: Sendable {
  /// The maximum number of names. A certificate with more does not belong to a single client, so none of them counts.
  public static let mostNames = Int(AlternativeNames.maximum)

  /// The URIs, such as `spiffe://example.com/partner`.
  public let uris: [String]
  /// The DNS names, in the case of the certificate.
  public let dnsNames: [String]
  /// The e-mail addresses.
  public let emailAddresses: [String]
  /// The IP addresses, in the form of `inet_ntop`.
  public let ipAddresses: [String]
  /// The SHA-256 of the whole certificate (DER) as 64 lower-case hexadecimal digits.
  public let fingerprint: String
  /// The expiry time, in seconds since 1970.
  public let notAfter: Int
  /// The digest of the client CAs that verified the certificate: see ``TLSContext/clientAuthorities``.
  public let authorities: [UInt8]

  /// Creates a certificate with these names.
  public init(
    uris: [String] = [], dnsNames: [String] = [], emailAddresses: [String] = [], ipAddresses: [String] = [],
    fingerprint: String, notAfter: Int = .max, authorities: [UInt8] = []
  ) {
    (self.uris, self.dnsNames, self.emailAddresses, self.ipAddresses) = (uris, dnsNames, emailAddresses, ipAddresses)
    (self.fingerprint, self.notAfter, self.authorities) = (fingerprint, notAfter, authorities)
    let names = [uris, dnsNames, emailAddresses, ipAddresses].joined()
    // The usual size of this object, and of a name beside its text.
    heldBytes = names.reduce(512) { $0 + $1.utf8.count + 64 }
  }

  /// The memory for this object and its names, in bytes.
  public let heldBytes: Int

  /// Returns whether the certificate is still valid at `now`, in seconds since 1970, with the present client CAs. A
  /// connection may outlive both.
  public func holds(now: Int, authorities: [UInt8]?) -> Bool {
    now <= notAfter && self.authorities == authorities
  }
}

extension ClientCertificate {
  /// Reads a certificate, which the caller still owns. Returns nil if OpenSSL cannot compute its digest.
  convenience init?(_ certificate: OpaquePointer, authorities: [UInt8]) {
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
    guard unsafe X509_digest(certificate, EVP_sha256(), &digest, nil) == 1 else { return nil }
    let names = unsafe AlternativeNames(certificate)
    self.init(
      uris: names.uris, dnsNames: names.dnsNames, emailAddresses: names.emailAddresses,
      ipAddresses: names.ipAddresses, fingerprint: String(hexadecimal: digest.span),
      notAfter: unsafe Certificate.notAfter(certificate) ?? 0, authorities: authorities)
  }
}

/// The reason why a server's certificate was refused.
enum CertificateRefusal {
  /// Returns one sentence about the error of a verification in progress for the client's operator, with the action to take.
  /// `caSetting` names the CAs to trust.
  static func sentence(_ store: OpaquePointer, of host: String, caSetting: String) -> String {
    let error = unsafe X509_STORE_CTX_get_error(store)
    guard let certificate = unsafe X509_STORE_CTX_get_current_cert(store) else { return general(error, host) }
    switch error {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      let day = unsafe day(X509_get0_notAfter(certificate))
      return "The certificate of \(host) expired on \(day); renew it there, or correct the clock of this machine."
    case X509_V_ERR_CERT_NOT_YET_VALID:
      let day = unsafe day(X509_get0_notBefore(certificate))
      return "The certificate of \(host) is not valid before \(day); this machine's clock may be wrong."
    case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
      let names = unsafe alternativeNames(of: certificate)
      return "The server at \(host) has a certificate for \(names.isEmpty ? "no host" : names)."
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "The certificate of \(host) is self-signed; to trust it, name it in \(caSetting)."
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return
        unsafe "The issuer '\(issuer(of: certificate))' of the certificate of \(host) is not trusted; name its CA in "
        + "\(caSetting), or install the system's CAs (ca-certificates)."
    default: return general(error, host)
    }
  }

  private static func general(_ error: Int32, _ host: String) -> String {
    let words = unsafe X509_verify_cert_error_string(Int(error)).map { unsafe String(cString: $0) } ?? "unknown"
    return "The certificate of \(host) is invalid: \(words)."
  }

  private static func day(_ time: UnsafePointer<ASN1_TIME>?) -> String {
    unsafe Certificate.seconds(time).map { String("\(CivilTime(secondsSinceEpoch: $0))".prefix(10)) } ?? "?"
  }

  private static func issuer(of certificate: OpaquePointer) -> String {
    var line = [CChar](repeating: 0, count: maximumText)
    // Escapes all bytes that are not plain ASCII, and truncates the text.
    unsafe X509_NAME_oneline(X509_get_issuer_name(certificate), &line, Int32(line.count))
    return String(decoding: line.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
  }

  private static func alternativeNames(of certificate: OpaquePointer) -> String {
    let place = unsafe X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1)
    guard place >= 0, let names = unsafe X509_get_ext(certificate, place) else { return "" }
    guard let bio = unsafe BIO_new(BIO_s_mem()) else { return "" }
    defer { unsafe BIO_free(bio) }
    unsafe X509V3_EXT_print(bio, names, 0, 0)
    var bytes = [UInt8](repeating: 0, count: maximumText)
    let count = unsafe BIO_read(bio, &bytes, Int32(bytes.count))
    // An attacker may have chosen the names, so only plain characters remain.
    let plain = bytes.prefix(max(0, Int(count))).map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }
    return String(decoding: plain, as: UTF8.self)
  }

  private static let maximumText = 300
}
