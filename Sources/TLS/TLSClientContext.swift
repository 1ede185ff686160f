import COpenSSL

/// Whom a client trusts, and its TLS policy, checked and immutable, for any number of sessions on any thread.
///
/// The policy is that of ``TLSContext``; chain and host name of every server are verified. The latest session ticket of
/// each host is kept and offered, so that a new connection costs a server no signature.
///
/// `@unchecked Sendable`: for the reasons of ``TLSContext``; the tickets have a lock of their own.
public final class TLSClientContext: @unchecked Sendable {
  /// What a server may cost.
  public let limits: TLSLimits

  let handle: TLSContext.Handle
  let tickets: SessionTickets

  /// Loads the certification authorities.
  /// - Parameters:
  ///   - caFile: PEM: the CAs to trust in place of the system's; nil for the system's, where OpenSSL looks for them.
  ///   - limits: What a server may cost.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the mend.
  public init(caFile: String? = nil, limits: TLSLimits = TLSLimits()) throws(TLSError) {
    let handle = try TLSContext.Handle(.client)
    unsafe try TLSContext.applyPolicy(to: handle.pointer)
    unsafe try Self.trust(caFile, handle.pointer)
    unsafe ServerIdentity.verify(on: handle.pointer)
    unsafe SessionTickets.keep(on: handle.pointer)
    self.handle = handle
    self.limits = limits
    tickets = SessionTickets()
  }

  private static func trust(_ caFile: String?, _ context: OpaquePointer) throws(TLSError) {
    guard let caFile else {
      guard unsafe SSL_CTX_set_default_verify_paths(context) == 1 else {
        throw .internalFailure("OpenSSL does not know where this system keeps its certification authorities.")
      }
      return
    }
    try PEMFile(caFile).forEachCertificate { place, authority throws(TLSError) in
      guard unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.pointer) == 1 else {
        throw .configuration("Certificate \(place + 1) in '\(caFile)' cannot be used as a CA.")
      }
    }
  }
}
