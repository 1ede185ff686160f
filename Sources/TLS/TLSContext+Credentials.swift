import Bytes
import COpenSSL
import Glibc

extension TLSContext.Handle {
  /// Loads the certificate, its chain and its key, and returns the expiry time of the certificate.
  func load(_ certificate: PEMFile, _ key: PEMFile, _ findings: inout [String]) throws(TLSError) -> Int {
    let notAfter = try loadChain(certificate, &findings)
    try loadKey(key, of: certificate.path, &findings)
    return notAfter
  }

  private func loadChain(_ file: PEMFile, _ findings: inout [String]) throws(TLSError) -> Int {
    let path = file.path
    var notAfter: Int?
    var below: Certificate?
    try file.forEachCertificate { place, certificate throws(TLSError) in
      if place == 0 {
        try use(certificate, of: path)
        notAfter = certificate.notAfter
      } else if unsafe SSL_CTX_add1_chain_cert(pointer, certificate.pointer) != 1 {
        throw .configuration("Certificate \(place + 1) in '\(path)' is not usable; have it issued again.")
      }
      findings += Self.lifetimeFindings(certificate, place, path)
      // By names and key identifiers.
      if let child = below.take(), unsafe X509_check_issued(certificate.pointer, child.pointer) != X509_V_OK {
        findings.append(
          "Certificate \(place + 1) in '\(path)' did not issue the one before it; put the chain in order, leaf first.")
      }
      below = consume certificate
    }
    guard let notAfter else { throw TLSError(.configuration, "The certificate in '\(path)' has no valid end date.") }
    return notAfter
  }

  /// Loads the private key and checks that it belongs to the certificate loaded before.
  private func loadKey(_ file: PEMFile, of certificateFile: String, _ findings: inout [String]) throws(TLSError) {
    let path = file.path
    findings += try file.access.findings("key file")
    unsafe try file.withPrivateKey { key throws(TLSError) in
      guard let certificate = unsafe SSL_CTX_get0_certificate(pointer),
        unsafe X509_check_private_key(certificate, key) == 1
      else {
        throw .configuration(
          "The key in '\(path)' does not belong to the certificate in '\(certificateFile)'; name two files that do.")
      }
      guard unsafe SSL_CTX_use_PrivateKey(pointer, key) == 1 else {
        throw .configuration("The key in '\(path)' is not usable for TLS; use an EC P-256 or an RSA key.")
      }
    }
  }

  private func use(_ certificate: borrowing Certificate, of path: String) throws(TLSError) {
    guard unsafe SSL_CTX_use_certificate(pointer, certificate.pointer) != 1 else { return }
    switch ERR_GET_REASON(ERR_peek_last_error()) {
    case SSL_R_EE_KEY_TOO_SMALL, SSL_R_CA_MD_TOO_WEAK:
      throw .configuration("The certificate in '\(path)' is too weak; use EC P-256 or RSA of 2048 bits or more.")
    default:
      throw .configuration("The certificate in '\(path)' is not usable for TLS; use EC P-256 or RSA.")
    }
  }

  private static func lifetimeFindings(_ certificate: borrowing Certificate, _ place: Int, _ path: String) -> [String] {
    let subject = place == 0 ? "The certificate in '\(path)'" : "Certificate \(place + 1) in '\(path)'"
    if certificate.isExpired { return ["\(subject) has expired, so clients will refuse it; renew it."] }
    guard certificate.isNotYetValid else { return [] }
    let start = certificate.notBefore.map { " before \(CivilTime(secondsSinceEpoch: $0))" } ?? " yet"
    return ["\(subject) is not valid\(start), so clients refuse it; check the clock and the certificate's dates."]
  }

  /// Trusts the CAs in a file, for which `accept` returns true.
  func trust(
    _ file: PEMFile, as role: String, if accept: (borrowing Certificate) -> Bool = { _ in true }
  ) throws(TLSError) -> AuthorityLifetimes {
    var lifetimes = AuthorityLifetimes()
    try file.forEachCertificate { place, authority throws(TLSError) in
      lifetimes.note(authority, place)
      guard unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(pointer), authority.pointer) == 1, accept(authority)
      else { throw .configuration("Certificate \(place + 1) in '\(file.path)' is not usable as \(role).") }
    }
    return lifetimes
  }

  /// Requests certificates of the file's CAs from clients, and binds session tickets to exactly these CAs.
  func acceptClientCertificates(
    of file: PEMFile?, _ limits: TLSLimits, _ findings: inout [String]
  ) throws(TLSError) -> (digest: [UInt8], earliestEnd: Int?) {
    // A resumed session carries the client certificate that was verified when it began. The server accepts a ticket only
    // under the session ID context of its issue, this digest, so removing a CA invalidates the sessions that depend on it.
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
    var lifetimes = AuthorityLifetimes()
    if let file {
      lifetimes = try trust(file, as: "a client CA") { authority in
        unsafe SSL_CTX_add_client_CA(pointer, authority.pointer) == 1 && Self.extend(&digest, by: authority)
      }
      findings += lifetimes.findings(file.path)
      // A CA is trusted because it is in the file, even if the CA that signed it is not.
      unsafe X509_STORE_set_flags(SSL_CTX_get_cert_store(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
      unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
      dropTicketsOfExpiredCertificates()
      limitClientChain(limits)
    }
    guard unsafe SSL_CTX_set_session_id_context(pointer, digest, UInt32(digest.count)) == 1 else {
      throw .internalFailure("OpenSSL refuses the session ID context.")
    }
    return (digest, lifetimes.earliestEnd)
  }

  /// Makes a digest depend on a further CA, and on the order of the CAs. Returns false if OpenSSL fails.
  private static func extend(_ digest: inout [UInt8], by authority: borrowing Certificate) -> Bool {
    var fingerprint = digest
    guard unsafe X509_digest(authority.pointer, EVP_sha256(), &fingerprint, nil) == 1 else { return false }
    let input = digest + fingerprint
    return unsafe EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1
  }

  /// Drops the tickets of expired client certificates. A resumed session verifies no certificate and creates the next
  /// ticket, so one handshake before the expiry would grant access forever.
  private func dropTicketsOfExpiredCertificates() {
    unsafe SSL_CTX_set_session_ticket_cb(
      pointer, nil,
      { _, session, _, _, status, _ in
        let certificate = unsafe session.flatMap { unsafe SSL_SESSION_get0_peer($0) }
        let isExpired = unsafe certificate.map { unsafe X509_cmp_current_time(X509_get0_notAfter($0)) < 0 } ?? false
        switch status {
        case SSL_TICKET_SUCCESS where !isExpired: return SSL_TICKET_RETURN_USE
        case SSL_TICKET_SUCCESS_RENEW where !isExpired: return SSL_TICKET_RETURN_USE_RENEW
        default: return SSL_TICKET_RETURN_IGNORE_RENEW
        }
      }, nil)
  }

  /// Limits the certificates that clients may send, and keeps only the first after its verification.
  private func limitClientChain(_ limits: TLSLimits) {
    // Before OpenSSL allocates memory for the message.
    unsafe SSL_CTX_set_max_cert_list(pointer, limits.certificateListBytes)
    unsafe SSL_CTX_set_cert_verify_callback(
      pointer,
      { store, mostCertificates in
        guard let store = unsafe store, let chain = unsafe X509_STORE_CTX_get0_untrusted(store) else { return 0 }
        guard unsafe OPENSSL_sk_num(chain) <= Int(bitPattern: mostCertificates) else {
          unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_CHAIN_TOO_LONG)
          return 0
        }
        let result = unsafe X509_verify_cert(store)
        // A session would keep them until it ends. The first is the client's own. Safe: the stack is the one that
        // OpenSSL's handshake gives to the session next, and the verification has its own references.
        while unsafe OPENSSL_sk_num(chain) > 1 { unsafe X509_free(OpaquePointer(OPENSSL_sk_pop(chain))) }
        return result
      }, UnsafeMutableRawPointer(bitPattern: limits.mostCertificates))
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

  /// Returns the first bytes that `write` writes to a BIO; none if it fails.
  static func bytes(atMost limit: Int, _ write: (OpaquePointer) -> Int32) -> ArraySlice<UInt8> {
    guard let bio = unsafe BIO_new(BIO_s_mem()) else { return [] }
    defer { unsafe BIO_free(bio) }
    guard unsafe write(bio) == 1 else { return [] }
    var bytes = [UInt8](repeating: 0, count: limit)
    let count = unsafe BIO_read(bio, &bytes, Int32(limit))
    return bytes.prefix(max(0, Int(count)))
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
    let kinds = [
      (expired, "expired, so the server refuses certificates that they signed; renew or remove them"),
      (early, "a start date in the future; check the clock and their dates"),
    ]
    return kinds.compactMap { places, fault in
      places.first.map { first in
        "\(places.count) of \(count) CA certificates in '\(path)' have \(fault) (the first is certificate \(first))."
      }
    }
  }
}
