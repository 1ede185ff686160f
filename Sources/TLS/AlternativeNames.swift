import Bytes
import COpenSSL
import Glibc

/// The subject alternative names of a certificate (RFC 5280 §4.2.1.6). If one of them is malformed, all lists are
/// empty.
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
    guard count <= maximum, (0..<count).allSatisfy({ unsafe add(names, $0) }) else {
      self = AlternativeNames()
      return
    }
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

/// An owned X.509 certificate.
@safe struct Certificate: ~Copyable {
  let pointer: OpaquePointer

  init(owning pointer: OpaquePointer) { unsafe self.pointer = pointer }

  deinit { unsafe X509_free(pointer) }

  // Times are in seconds since 1970, or nil if the date is invalid.

  var notAfter: Int? { unsafe Self.notAfter(pointer) }

  var notBefore: Int? { unsafe Self.seconds(X509_get0_notBefore(pointer)) }

  /// Returns the expiry time of a certificate of which the caller keeps ownership.
  static func notAfter(_ certificate: OpaquePointer) -> Int? { unsafe seconds(X509_get0_notAfter(certificate)) }

  static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int? {
    var date = unsafe tm()
    guard unsafe ASN1_TIME_to_tm(time, &date) == 1 else { return nil }
    return unsafe timegm(&date)
  }

  var isExpired: Bool { unsafe X509_cmp_current_time(X509_get0_notAfter(pointer)) < 0 }

  var isNotYetValid: Bool { unsafe X509_cmp_current_time(X509_get0_notBefore(pointer)) > 0 }

  /// Returns whether `issuer` could have issued it, according to names and key identifiers.
  func isIssued(by issuer: borrowing Certificate) -> Bool {
    unsafe X509_check_issued(issuer.pointer, pointer) == X509_V_OK
  }
}

/// The CAs of a file that are outside their validity period. Certificates that they signed are refused.
struct AuthorityLifetimes {
  private var expired: [Int] = []
  private var early: [Int] = []
  private var count = 0
  /// The earliest expiry time of the noted certificates, in seconds since 1970; nil without a valid date.
  private(set) var earliestEnd: Int?

  /// Checks the certificate at `place`, counted from 0.
  mutating func note(_ authority: borrowing Certificate, _ place: Int) {
    count += 1
    if authority.isExpired { expired.append(place + 1) }
    if authority.isNotYetValid { early.append(place + 1) }
    if let end = authority.notAfter { earliestEnd = min(end, earliestEnd ?? end) }
  }

  /// Returns one sentence for each kind of problem, even if many CAs of a bundle have it.
  func findings(_ path: String) -> [String] {
    [
      Self.finding(
        expired, count, "expired, so the server refuses certificates that they signed; renew or remove them", path),
      Self.finding(early, count, "a start date in the future; check the clock and their dates", path),
    ].compactMap { $0 }
  }

  private static func finding(_ places: [Int], _ count: Int, _ fault: String, _ path: String) -> String? {
    guard let first = places.first else { return nil }
    return "\(places.count) of \(count) CA certificates in '\(path)' have \(fault) (the first is certificate \(first))."
  }
}
