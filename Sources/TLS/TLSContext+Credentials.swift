import Bytes
import COpenSSL
import Glibc
import Locks

extension TLSContext {
  /// Loads the certificate and its chain, and returns the expiry time of the certificate.
  static func loadChain(
    _ file: PEMFile, into context: OpaquePointer, _ findings: inout [String]
  ) throws(TLSError) -> Int {
    let path = file.path
    var notAfter: Int?
    var below: Certificate?
    try file.forEachCertificate { place, certificate throws(TLSError) in
      if place == 0 {
        unsafe try use(certificate, of: path, on: context)
        notAfter = certificate.notAfter
      } else if unsafe SSL_CTX_add1_chain_cert(context, certificate.pointer) != 1 {
        throw .configuration("Certificate \(place + 1) in '\(path)' is not usable; have it issued again.")
      }
      findings += lifetimeFindings(certificate, place, path)
      if let child = below.take(), !child.isIssued(by: certificate) {
        findings.append(
          "Certificate \(place + 1) in '\(path)' did not issue the one before it; put the chain in order, leaf first.")
      }
      below = consume certificate
    }
    guard let notAfter else {
      throw TLSError(.configuration, "The certificate in '\(path)' has no valid end date.")
    }
    return notAfter
  }

  /// Loads the private key and checks that it belongs to the certificate loaded before.
  static func loadKey(
    _ file: PEMFile, of certificateFile: String, into context: OpaquePointer, _ findings: inout [String]
  ) throws(TLSError) {
    let path = file.path
    findings += try file.access.findings("key file")
    unsafe try file.withPrivateKey { key throws(TLSError) in
      guard let certificate = unsafe SSL_CTX_get0_certificate(context),
        unsafe X509_check_private_key(certificate, key) == 1
      else {
        throw .configuration(
          "The key in '\(path)' does not belong to the certificate in '\(certificateFile)'; name two files that do."
        )
      }
      guard unsafe SSL_CTX_use_PrivateKey(context, key) == 1 else {
        throw .configuration("The key in '\(path)' is not usable for TLS; use an EC P-256 or an RSA key.")
      }
    }
  }

  /// Requests certificates of the file's CAs from clients, and binds session tickets to exactly these CAs.
  static func acceptClientCertificates(
    of file: PEMFile?, _ context: OpaquePointer, _ findings: inout [String]
  ) throws(TLSError) -> (digest: [UInt8], earliestEnd: Int?) {
    // A resumed session carries the client certificate that was verified when it began. The server accepts a ticket only
    // under the session ID context of its issue, this digest, so removing a CA invalidates the sessions that depend on it.
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
    var lifetimes = AuthorityLifetimes()
    if let file {
      let path = file.path
      try file.forEachCertificate { place, authority throws(TLSError) in
        lifetimes.note(authority, place)
        guard unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.pointer) == 1,
          unsafe SSL_CTX_add_client_CA(context, authority.pointer) == 1, extend(&digest, by: authority)
        else { throw .configuration("Certificate \(place + 1) in '\(path)' is not usable as a client CA.") }
      }
      findings += lifetimes.findings(path)
      // A CA is trusted because it is in the file, even if the CA that signed it is not.
      unsafe X509_STORE_set_flags(SSL_CTX_get_cert_store(context), UInt(X509_V_FLAG_PARTIAL_CHAIN))
      unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
      unsafe dropTicketsOfExpiredCertificates(context)
    }
    guard unsafe SSL_CTX_set_session_id_context(context, digest, UInt32(digest.count)) == 1 else {
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
  private static func dropTicketsOfExpiredCertificates(_ context: OpaquePointer) {
    unsafe SSL_CTX_set_session_ticket_cb(
      context, nil,
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

  private static func use(
    _ certificate: borrowing Certificate, of path: String, on context: OpaquePointer
  ) throws(TLSError) {
    guard unsafe SSL_CTX_use_certificate(context, certificate.pointer) != 1 else { return }
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
    if certificate.isNotYetValid {
      let start = certificate.notBefore.map { " before \(CivilTime(secondsSinceEpoch: $0))" } ?? " yet"
      return ["\(subject) is not valid\(start), so clients refuse it; check the clock and the certificate's dates."]
    }
    return []
  }

  /// Limits the certificates that the clients of `context` may send, and keeps only the first of them after its
  /// verification.
  static func limitClientChain(on context: OpaquePointer, _ limits: TLSLimits) {
    // Before OpenSSL allocates memory for the message.
    unsafe SSL_CTX_set_max_cert_list(context, limits.certificateListBytes)
    unsafe SSL_CTX_set_cert_verify_callback(
      context,
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

/// The server that a client's session expects, and the result of verifying its certificate.
final class ServerIdentity {
  let host: String
  let context: TLSClientContext

  /// The reason why the certificate was refused, or nil if it was not.
  private(set) var refusal: String?

  init(_ host: String, of context: TLSClientContext) {
    (self.host, self.context) = (host, context)
  }

  /// Requests the host (RFC 6066 §3) and requires a certificate for it (RFC 9525).
  /// - Throws: `configuration` if `host` is neither a name nor an address.
  func expect(on ssl: OpaquePointer) throws(TLSError) {
    // The session keeps this object as long as it keeps the `SSL`.
    unsafe SSL_set_ex_data(ssl, Self.dataIndex, Unmanaged.passUnretained(self).toOpaque())
    let isAddress = unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
    if !isAddress {
      let flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
      unsafe SSL_set_hostflags(ssl, flags)
      guard isName, unsafe SSL_set1_host(ssl, host) == 1, unsafe SSL_set_tlsext_host_name(ssl, host) == 1 else {
        throw .configuration("'\(host)' is neither a host name nor an IP address.")
      }
    }
    unsafe context.tickets.offer(host, on: ssl)
  }

  /// Whether a certificate could have this host as a DNS name; OpenSSL would accept any text.
  private var isName: Bool { (1...253).contains(host.utf8.count) && host.utf8.allSatisfy(\.isOfName) }

  /// Makes every session of `context` verify its server, and record the reason of a refusal here.
  static func verify(on context: OpaquePointer) {
    unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER) { isGood, store in
      if isGood == 0, let store = unsafe store { unsafe ServerIdentity.note(store) }
      return isGood
    }
  }

  static func of(_ ssl: OpaquePointer) -> ServerIdentity? {
    guard let data = unsafe SSL_get_ex_data(ssl, dataIndex) else { return nil }
    return unsafe Unmanaged<ServerIdentity>.fromOpaque(data).takeUnretainedValue()
  }

  /// The index of OpenSSL's `SSL_get_app_data`, which no library may use.
  private static let dataIndex: Int32 = 0

  private static func note(_ store: OpaquePointer) {
    let ssl = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
    guard let ssl = unsafe ssl, let server = unsafe of(OpaquePointer(ssl)) else { return }
    server.refusal = unsafe CertificateRefusal.sentence(store, of: server.host, caSetting: server.context.caSetting)
  }

  /// Records how long the chain of an established session is valid. A resumed session has none.
  func noteChain(of ssl: OpaquePointer) {
    guard let chain = unsafe SSL_get0_verified_chain(ssl) else { return }
    let ends = unsafe (0..<OPENSSL_sk_num(chain)).compactMap { place in
      unsafe OPENSSL_sk_value(chain, place).flatMap { unsafe Certificate.notAfter(OpaquePointer($0)) }
    }
    if let earliest = ends.min() { context.serverChainEnd.withLock { $0 = earliest } }
  }

  /// Returns a sentence about OpenSSL's error for the client's operator, or nil if the general sentence fits.
  func sentence(for cause: TLSError.Cause, _ reason: Int32) -> String? {
    switch (cause, reason) {
    case (.certificateOfPeer, _): refusal
    case (.alertFromPeer, SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION), (_, SSL_R_UNSUPPORTED_PROTOCOL):
      "\(host) does not speak TLS 1.2 or 1.3; older versions are not safe."
    case (.alertFromPeer, _): "\(host) ended the TLS session with the alert '\(Self.alert(reason))'."
    case (.violationByPeer, SSL_R_WRONG_VERSION_NUMBER): "\(host) does not speak TLS on this port."
    case (.violationByPeer, _): "\(host) broke the TLS protocol."
    default: nil
    }
  }

  /// Returns an alert's name (RFC 8446 §6) for OpenSSL's number.
  private static func alert(_ reason: Int32) -> String {
    unsafe SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET).map { unsafe String(cString: $0) } ?? "unknown"
  }
}
