import COpenSSL
import Locks

/// Whom a client trusts, and its TLS policy, checked and immutable, for any number of sessions on any thread.
///
/// The policy is that of ``TLSContext``; chain and host name of every server are verified. The latest session ticket of
/// each host is kept and offered, so that a new connection costs a server no signature.
///
/// `@unchecked Sendable`: for the reasons of ``TLSContext``; the tickets have a lock of their own, and the system's
/// authorities are read with `lacksSystemStore` locked, before the first session is made.
public final class TLSClientContext: @unchecked Sendable {
  /// What a server may cost.
  public let limits: TLSLimits

  /// What the operator should know about the CAs although they can be used: one sentence each.
  public let findings: [String]

  let handle: TLSContext.Handle
  /// The setting that names the CAs, for sentences about a server that is not trusted.
  let caSetting: String
  let tickets: SessionTickets
  private let lacksSystemStore: Locked<Bool>

  /// Loads these certification authorities; the system's are left to ``loadSystemStore()``.
  /// - Parameters:
  ///   - authorities: The CAs to trust in place of the system's; nil for the system's, where OpenSSL looks for them.
  ///   - caSetting: The setting that names their file, which errors name.
  ///   - limits: What a server may cost.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the fix.
  public init(
    authorities: PEMFile?, caSetting: String = "catalog.caFile", limits: TLSLimits = TLSLimits()
  ) throws(TLSError) {
    let handle = try TLSContext.Handle(.client)
    unsafe try TLSContext.applyPolicy(to: handle.pointer)
    findings = if let authorities { unsafe try Self.trust(authorities, handle.pointer) } else { [] }
    self.caSetting = caSetting
    lacksSystemStore = Locked(authorities == nil)
    unsafe ServerIdentity.verify(on: handle.pointer)
    unsafe SessionTickets.keep(on: handle.pointer)
    self.handle = handle
    self.limits = limits
    tickets = SessionTickets()
  }

  /// Reads the file of this path, and loads its authorities.
  public convenience init(
    caFile: String? = nil, caSetting: String = "catalog.caFile", limits: TLSLimits = TLSLimits()
  ) throws(TLSError) {
    var authorities: PEMFile?
    if let caFile { authorities = try PEMFile(caFile) }
    try self.init(authorities: authorities, caSetting: caSetting, limits: limits)
  }

  /// Reads the system's certification authorities, if they are trusted and have not been read yet. The first session
  /// does this. It takes about 25 ms, once; otherwise every start would have to wait for it.
  /// - Throws: `TLSError` with the cause `internalFailure` if OpenSSL does not know where they are.
  func loadSystemStore() throws(TLSError) {
    let isLoaded = lacksSystemStore.withLock { lacksSystemStore in
      if lacksSystemStore { lacksSystemStore = unsafe SSL_CTX_set_default_verify_paths(handle.pointer) != 1 }
      return !lacksSystemStore
    }
    guard isLoaded else {
      throw .internalFailure("OpenSSL does not know where this system keeps its certification authorities.")
    }
  }

  private static func trust(_ file: PEMFile, _ context: OpaquePointer) throws(TLSError) -> [String] {
    var lifetimes = AuthorityLifetimes()
    try file.forEachCertificate { place, authority throws(TLSError) in
      lifetimes.note(authority, place)
      guard unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.pointer) == 1 else {
        throw .configuration("Certificate \(place + 1) in '\(file.path)' cannot be used as a CA.")
      }
    }
    return lifetimes.findings(file.path)
  }
}
