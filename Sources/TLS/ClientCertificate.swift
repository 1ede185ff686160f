import COpenSSL

/// What the client CAs vouch for in a client's verified certificate.
///
/// The names are those of the subject alternative name extension (RFC 5280 §4.2.1.6). The common name is not used,
/// because it is free-form text (RFC 9525 §2). If the extension is malformed, the certificate has no names.
public final class ClientCertificate: Sendable {
  /// URIs: `spiffe://example.com/partner`.
  public let uris: [String]
  /// DNS names, in the case that they are written in.
  public let dnsNames: [String]
  /// Addresses of e-mail.
  public let emailAddresses: [String]
  /// IP addresses, as `inet_ntop` writes them.
  public let ipAddresses: [String]
  /// The SHA-256 of the whole certificate (DER), 64 hexadecimal digits in lower case.
  public let fingerprint: String
  /// When it expires, in seconds since 1970.
  public let notAfter: Int
  /// The client CAs that it was verified against: see ``TLSContext/clientAuthorities``.
  public let authorities: [UInt8]

  /// A certificate with these names.
  public init(
    uris: [String] = [], dnsNames: [String] = [], emailAddresses: [String] = [], ipAddresses: [String] = [],
    fingerprint: String, notAfter: Int = .max, authorities: [UInt8] = []
  ) {
    self.uris = uris
    self.dnsNames = dnsNames
    self.emailAddresses = emailAddresses
    self.ipAddresses = ipAddresses
    self.fingerprint = fingerprint
    self.notAfter = notAfter
    self.authorities = authorities
  }

  /// Whether it still holds. A connection may live on when its certificate has expired, or when the CAs have changed.
  ///
  /// - Parameters:
  ///   - now: Seconds since 1970.
  ///   - authorities: The client CAs of today.
  public func holds(now: Int, authorities: [UInt8]?) -> Bool {
    now <= notAfter && self.authorities == authorities
  }
}

extension ClientCertificate {
  /// Reads a certificate, which stays the caller's. Nil if OpenSSL cannot digest it.
  convenience init?(_ certificate: OpaquePointer, authorities: [UInt8]) {
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
    guard unsafe X509_digest(certificate, EVP_sha256(), &digest, nil) == 1 else { return nil }
    let names = unsafe AlternativeNames(certificate)
    self.init(
      uris: names.uris, dnsNames: names.dnsNames, emailAddresses: names.emailAddresses,
      ipAddresses: names.ipAddresses, fingerprint: digest.map(Self.hexadecimal).joined(),
      notAfter: unsafe Certificate.notAfter(certificate) ?? 0, authorities: authorities)
  }

  private static func hexadecimal(_ byte: UInt8) -> String {
    (byte < 16 ? "0" : "") + String(byte, radix: 16)
  }
}
