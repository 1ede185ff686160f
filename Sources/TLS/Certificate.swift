import COpenSSL
import Glibc

/// One X.509 certificate, owned.
@safe struct Certificate: ~Copyable {
  let pointer: OpaquePointer

  /// Takes over a reference that the caller holds.
  init(owning pointer: OpaquePointer) {
    unsafe self.pointer = pointer
  }

  deinit { unsafe X509_free(pointer) }

  /// When the certificate ends, in seconds since 1970, or nil if its date makes no sense.
  var notAfter: Int? { unsafe Self.notAfter(pointer) }

  /// When `certificate` expires, in seconds since 1970. The caller keeps ownership of it.
  static func notAfter(_ certificate: OpaquePointer) -> Int? {
    var date = unsafe tm()
    guard unsafe ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &date) == 1 else { return nil }
    return unsafe timegm(&date)
  }

  /// Whether its time is over.
  var isExpired: Bool { unsafe X509_cmp_current_time(X509_get0_notAfter(pointer)) < 0 }

  /// Whether its time has yet to come.
  var isNotYetValid: Bool { unsafe X509_cmp_current_time(X509_get0_notBefore(pointer)) > 0 }

  /// Whether `issuer` could have issued it, going by names and key identifiers.
  func isIssued(by issuer: borrowing Certificate) -> Bool {
    unsafe X509_check_issued(issuer.pointer, pointer) == X509_V_OK
  }
}
