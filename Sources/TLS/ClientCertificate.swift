import Bytes
import COpenSSL
import Glibc

/// The identities in a client's certificate, which is verified against the client CAs: the names of its subject
/// alternative name extension (RFC 5280 §4.2.1.6). The common name is not used, because it is free-form text (RFC 9525
/// §2). If the extension is malformed, the certificate has no names.
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
  /// The memory for this object and its names, in bytes.
  public let heldBytes: Int

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

  /// Returns whether it is valid at `now`, in seconds since 1970, with the present CAs. A connection may outlive both.
  public func holds(now: Int, authorities: [UInt8]?) -> Bool { now <= notAfter && self.authorities == authorities }

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

/// The subject alternative names of a certificate (RFC 5280 §4.2.1.6); none if one of them is malformed.
struct AlternativeNames: Equatable {
  private(set) var uris: [String] = []
  private(set) var dnsNames: [String] = []
  private(set) var emailAddresses: [String] = []
  private(set) var ipAddresses: [String] = []

  /// The value of ``ClientCertificate/mostNames``.
  static let maximum: Int32 = 32

  /// Reads the names of `certificate`, which the caller still owns.
  init(_ certificate: OpaquePointer, atMost maximum: Int32 = AlternativeNames.maximum) {
    var criticality: Int32 = 0
    // Nil if there is no such extension, more than one, or a damaged one.
    let names = unsafe OpaquePointer(X509_get_ext_d2i(certificate, NID_subject_alt_name, &criticality, nil))
    ErrorQueue.clear()
    defer { unsafe GENERAL_NAMES_free(names) }
    guard let names = unsafe names else { return }
    let count = unsafe OPENSSL_sk_num(names)
    let areWellFormed = count <= maximum && (0..<count).allSatisfy { unsafe add(names, $0) }
    if !areWellFormed { self = AlternativeNames() }
  }

  init() {}

  /// Adds the name at a place, if the server uses its kind. Returns false if the name is malformed.
  private mutating func add(_ names: OpaquePointer, _ place: Int32) -> Bool {
    guard let value = unsafe OPENSSL_sk_value(names, place) else { return false }
    let name = unsafe value.assumingMemoryBound(to: GENERAL_NAME.self).pointee
    switch unsafe name.type {
    case GEN_URI: return unsafe Self.append(name.d.uniformResourceIdentifier, to: &uris)
    case GEN_DNS: return unsafe Self.append(name.d.dNSName, to: &dnsNames)
    case GEN_EMAIL: return unsafe Self.append(name.d.rfc822Name, to: &emailAddresses)
    case GEN_IPADD: return unsafe appendAddress(name.d.iPAddress)
    default: return true
    }
  }

  /// Appends text if all of it is visible ASCII, because a NUL inside a name ends the name for some readers only.
  private static func append(_ text: UnsafeMutablePointer<ASN1_STRING>?, to names: inout [String]) -> Bool {
    let bytes = unsafe bytes(of: text)
    guard !bytes.isEmpty, bytes.allSatisfy({ 0x21...0x7e ~= $0 }) else { return false }
    names.append(String(decoding: bytes, as: UTF8.self))
    return true
  }

  private mutating func appendAddress(_ address: UnsafeMutablePointer<ASN1_STRING>?) -> Bool {
    let bytes = unsafe Self.bytes(of: address)
    switch bytes.count {
    case 4: ipAddresses.append(bytes.map { "\($0)" }.joined(separator: "."))
    case 16: ipAddresses.append(String(ipv6: bytes.reduce(0) { $0 << 8 | UInt128($1) }))
    default: return false
    }
    return true
  }

  private static func bytes(of string: UnsafeMutablePointer<ASN1_STRING>?) -> [UInt8] {
    guard let string = unsafe string, let start = unsafe ASN1_STRING_get0_data(string) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: start, count: max(0, Int(ASN1_STRING_length(string)))))
  }
}
