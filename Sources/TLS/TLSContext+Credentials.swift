import COpenSSL
import Glibc

extension TLSContext {
  /// Loads the certificate and its chain, and returns when the certificate ends.
  static func loadChain(
    _ path: String, into context: OpaquePointer, _ findings: inout [String]
  ) throws(TLSError) -> Int {
    var notAfter: Int?
    var below: Certificate?
    try PEMFile(path).forEachCertificate { place, certificate throws(TLSError) in
      if place == 0 {
        unsafe try use(certificate, of: path, on: context)
        notAfter = certificate.notAfter
      } else if unsafe SSL_CTX_add1_chain_cert(context, certificate.pointer) != 1 {
        throw .configuration("Certificate \(place + 1) in '\(path)' cannot be used; have it issued afresh.")
      }
      findings += lifetimeFindings(certificate, place, path)
      if let child = below.take(), !child.isIssued(by: certificate) {
        findings.append(
          "Certificate \(place + 1) in '\(path)' did not issue the one before it; put the chain in order, leaf first.")
      }
      below = consume certificate
    }
    guard let notAfter else {
      throw TLSError(.configuration, "The certificate in '\(path)' bears no sensible end date.")
    }
    return notAfter
  }

  /// Loads the private key and holds it against the certificate loaded before.
  static func loadKey(
    _ path: String, of certificateFile: String, into context: OpaquePointer, _ findings: inout [String]
  ) throws(TLSError) {
    let file = try PEMFile(path)
    guard file.mode & (S_IWGRP | S_IWOTH) == 0 else {
      throw TLSError(
        .configuration, "Others than its owner can write the key file '\(path)'; run 'chmod 600 \(path)'.")
    }
    if file.mode & S_IROTH != 0, !file.isOnReadOnlyMount {
      findings.append("Anybody on this machine can read the key file '\(path)'; run 'chmod 600 \(path)'.")
    }
    unsafe try file.withPrivateKey { key throws(TLSError) in
      guard let certificate = unsafe SSL_CTX_get0_certificate(context),
        unsafe X509_check_private_key(certificate, key) == 1
      else {
        throw .configuration(
          "The key in '\(path)' does not belong to the certificate in '\(certificateFile)'; name the two that were made together."
        )
      }
      guard unsafe SSL_CTX_use_PrivateKey(context, key) == 1 else {
        throw .configuration("The key in '\(path)' cannot be used for TLS; use an EC P-256 or an RSA key.")
      }
    }
  }

  /// Asks clients for certificates of the CAs in the file, and ties session tickets to exactly these CAs. Returns what
  /// names them.
  static func acceptClientCertificates(
    of path: String?, _ context: OpaquePointer, _ findings: inout [String]
  ) throws(TLSError) -> [UInt8] {
    var identity = SessionIdentity()
    if let path {
      var lifetimes = AuthorityLifetimes()
      try PEMFile(path).forEachCertificate { place, authority throws(TLSError) in
        lifetimes.note(authority, place)
        guard unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.pointer) == 1,
          unsafe SSL_CTX_add_client_CA(context, authority.pointer) == 1, identity.add(authority)
        else { throw .configuration("Certificate \(place + 1) in '\(path)' cannot be used as a client CA.") }
      }
      findings += lifetimes.findings(path)
      // An authority is trusted because it is in the file, whether or not the one that signed it is.
      unsafe X509_STORE_set_flags(SSL_CTX_get_cert_store(context), UInt(X509_V_FLAG_PARTIAL_CHAIN))
      unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
      unsafe dropTicketsOfExpiredCertificates(context)
    }
    guard unsafe identity.set(on: context) else { throw .internalFailure("OpenSSL takes no session ID context.") }
    return identity.digest
  }

  /// A resumed session verifies no certificate, and begets the ticket of the next: without this, one handshake before its
  /// end would do for ever. With a ticket dropped, the client does a full handshake.
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
      throw .configuration("The certificate in '\(path)' cannot be used for TLS; use EC P-256 or RSA.")
    }
  }

  private static func lifetimeFindings(_ certificate: borrowing Certificate, _ place: Int, _ path: String) -> [String] {
    let subject = place == 0 ? "The certificate in '\(path)'" : "Certificate \(place + 1) in '\(path)'"
    if certificate.isExpired { return ["\(subject) has expired, so clients will refuse it; renew it."] }
    if certificate.isNotYetValid {
      return ["\(subject) is not valid yet; check the clock and the certificate's dates."]
    }
    return []
  }
}
