import COpenSSL
import Glibc
import Locks

/// A server's certificate, key and TLS policy, checked and immutable, for any number of sessions on any thread.
///
/// To change a certificate, make a new context with `resumingTicketsOf:` and give it to new sessions; those under way
/// keep the one that they began with.
///
/// The policy is Mozilla's *intermediate* one less finite-field DHE: TLS 1.2 with ECDHE and AEAD ciphers, and TLS 1.3;
/// no renegotiation, no compression, no early data. Sessions are resumed by stateless tickets.
///
/// `@unchecked Sendable`: an `SSL_CTX` is counted and locked by OpenSSL and, once configured, only read; everything
/// else here is immutable, and nothing but ``deinit`` frees the memory behind the pointers.
public final class TLSContext: @unchecked Sendable {
  /// What an operator should know about the files although they can be used: one sentence each, to be logged once.
  public let findings: [String]

  /// When the certificate expires, in seconds since 1970.
  public let certificateNotAfter: Int

  /// Names the client CAs: the same for the same CAs in the same order, and for none.
  public let clientAuthorities: [UInt8]

  /// What a peer may cost.
  public let limits: TLSLimits

  let handle: Handle
  private let protocols: ApplicationProtocols
  private let ticketKeys: TicketKeys

  /// Loads and checks a certificate and its key.
  /// - Parameters:
  ///   - certificate: The server's certificate, then each intermediate one that leads up to the root.
  ///   - key: The private key of the first certificate, not encrypted.
  ///   - clientCA: The CAs whose client certificates are accepted. If given, the server requests one. A client
  ///     may send no certificate. A certificate that does not verify ends the handshake.
  ///   - applicationProtocols: ALPN names (RFC 7301), best first. A client that offers ALPN but none of these gets a
  ///     fatal `no_application_protocol` (RFC 7301 §3.2). If empty, ALPN is ignored.
  ///   - previous: The context whose session tickets this one honours if its private key is the same, so that a reload
  ///     does not cost clients a full handshake. A new private key begins with new ticket keys. Tickets are also void
  ///     if the client CAs have changed, because a resumed session does not verify the certificate again.
  ///   - limits: What a peer may cost.
  ///   - now: The time in seconds since 1970, by which keys of session tickets are replaced.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the fix.
  public init(
    certificate: PEMFile, key: PEMFile, clientCA: PEMFile? = nil,
    applicationProtocols: [String] = ["http/1.1", "http/1.0"], resumingTicketsOf previous: TLSContext? = nil,
    limits: TLSLimits = TLSLimits(), now: @escaping @Sendable () -> Int = TLSContext.systemTime
  ) throws(TLSError) {
    let handle = try Handle(.server)
    let protocols = try ApplicationProtocols(applicationProtocols)
    var findings: [String] = []
    unsafe try Self.applyPolicy(to: handle.pointer)
    certificateNotAfter = unsafe try Self.loadChain(certificate, into: handle.pointer, &findings)
    unsafe try Self.loadKey(key, of: certificate.path, into: handle.pointer, &findings)
    clientAuthorities = unsafe try Self.acceptClientCertificates(of: clientCA, handle.pointer, &findings)
    if let previous, unsafe Self.haveSameKey(previous.handle.pointer, handle.pointer) {
      ticketKeys = previous.ticketKeys
    } else {
      ticketKeys = try TicketKeys(now: now)
    }
    unsafe try ticketKeys.use(on: handle.pointer)
    unsafe protocols.select(on: handle.pointer)
    self.handle = handle
    self.protocols = protocols
    self.findings = findings
    self.limits = limits
  }

  /// Reads the files of these paths, and loads and checks what they hold.
  public convenience init(
    certificateFile: String, keyFile: String, clientCAFile: String? = nil,
    applicationProtocols: [String] = ["http/1.1", "http/1.0"], resumingTicketsOf previous: TLSContext? = nil,
    limits: TLSLimits = TLSLimits(), now: @escaping @Sendable () -> Int = TLSContext.systemTime
  ) throws(TLSError) {
    let (certificate, key) = (try PEMFile(certificateFile), try PEMFile(keyFile))
    var clientCA: PEMFile?
    if let clientCAFile { clientCA = try PEMFile(clientCAFile) }
    try self.init(
      certificate: certificate, key: key, clientCA: clientCA,
      applicationProtocols: applicationProtocols, resumingTicketsOf: previous, limits: limits, now: now)
  }
}

extension TLSContext {
  /// The time in seconds since 1970.
  @Sendable public static func systemTime() -> Int { time(nil) }

  /// An owned `SSL_CTX`.
  @safe struct Handle: ~Copyable {
    let pointer: OpaquePointer

    init(_ role: TLSSession.Role) throws(TLSError) {
      ErrorQueue.clear()
      guard let pointer = unsafe SSL_CTX_new(role == .server ? TLS_server_method() : TLS_client_method()) else {
        throw .internalFailure("OpenSSL cannot make a TLS context.")
      }
      unsafe self.pointer = pointer
    }

    deinit { unsafe SSL_CTX_free(pointer) }
  }
}

extension TLSContext {
  /// TLS 1.2: forward secrecy and AEAD only, the cheapest first. TLS 1.3 has nothing else by definition.
  private static let cipherList = [
    "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
  ].joined(separator: ":")

  /// Best first. P-384 is last and for certificates: TLS 1.2 refuses those whose curve is not in this list.
  private static let groups = "X25519:P-256:P-384"

  /// OpenSSL's own list without SHA-224, which it still offers with ECDSA and RSA in TLS 1.2.
  private static let signatureAlgorithms = [
    "ecdsa_secp256r1_sha256", "ecdsa_secp384r1_sha384", "ecdsa_secp521r1_sha512", "ed25519", "ed448",
    "rsa_pss_pss_sha256", "rsa_pss_pss_sha384", "rsa_pss_pss_sha512",
    "rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384", "rsa_pss_rsae_sha512",
    "rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512",
  ].joined(separator: ":")

  /// Everything that is the same for every server and every client: versions, ciphers, options, modes, sessions.
  static func applyPolicy(to context: OpaquePointer) throws(TLSError) {
    // Level 2 is 112 bits: no RSA below 2048, no SHA-1. Set here because distributions differ.
    unsafe SSL_CTX_set_security_level(context, 2)
    unsafe SSL_CTX_set_options(
      context,
      // ChaCha20 goes first for clients that put it first: those have no AES in hardware.
      SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION)
    // An idle connection gives its 2 × 16 KiB of record buffers back. Partial writes are of no use here: a session's
    // outgoing array takes everything.
    unsafe SSL_CTX_set_mode(context, Int(SSL_MODE_RELEASE_BUFFERS))
    unsafe SSL_CTX_set_session_cache_mode(context, Int(SSL_SESS_CACHE_OFF))
    let isAccepted =
      unsafe SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1
      && SSL_CTX_set_cipher_list(context, cipherList) == 1
      && SSL_CTX_set1_groups_list(context, groups) == 1
      && SSL_CTX_set1_sigalgs_list(context, signatureAlgorithms) == 1
      // One connection of a keep-alive client needs one ticket to come back with.
      && SSL_CTX_set_num_tickets(context, 1) == 1
    guard isAccepted else {
      throw .internalFailure("This build of OpenSSL lacks the TLS versions, ciphers or signatures required.")
    }
  }

  /// Whether `new` may honour the session tickets of `old`: if both have the same private key.
  ///
  /// When an operator replaces a leaked key, sessions and ticket keys of the old key must end with it.
  static func haveSameKey(_ old: OpaquePointer, _ new: OpaquePointer) -> Bool {
    // Compares the public halves; keys of different kinds are no error, only not equal.
    let isSameKey = unsafe EVP_PKEY_eq(SSL_CTX_get0_privatekey(old), SSL_CTX_get0_privatekey(new)) == 1
    ErrorQueue.clear()
    return isSameKey
  }
}

/// What a peer may cost before a session gives it up.
///
/// OpenSSL bounds these by itself: a record (16 KiB and its overhead), a ClientHello (128 KiB), a certificate chain
/// (100 KB), 32 empty records in a row, 5 warning alerts in a row. The limits here are for what it leaves open.
public struct TLSLimits: Sendable, Equatable {
  /// Bytes that a handshake may take from the peer, both flights and record headers included.
  ///
  /// 64 KiB: a ClientHello with a post-quantum share is 2 KB, and a long client certificate chain 20 KB.
  public var handshakeBytes = 64 * 1024

  /// Messages of the TLS protocol itself after the handshake, with no application data between them.
  ///
  /// They are KeyUpdates (RFC 8446 §4.6.3) and, in TLS 1.2, attempts to renegotiate, each of which costs us a response.
  /// 32: an honest peer sends one KeyUpdate in 2²⁴ records and never renegotiates.
  public var controlMessages = 32

  /// The defaults.
  public init() {}
}

/// The protocols that one side speaks, in the wire form of ALPN (RFC 7301 §3.1) and at an address that stays.
@safe final class ApplicationProtocols {
  private let wire: UnsafeMutableBufferPointer<UInt8>

  /// - Throws: `configuration` if a name is empty or longer than 255 bytes.
  init(_ names: [String]) throws(TLSError) {
    var bytes: [UInt8] = []
    for name in names {
      guard let length = UInt8(exactly: name.utf8.count), length > 0 else {
        throw TLSError(.configuration, "The ALPN name '\(name)' is not 1 to 255 bytes long (RFC 7301 §3.1).")
      }
      bytes.append(length)
      bytes.append(contentsOf: name.utf8)
    }
    unsafe wire = .allocate(capacity: bytes.count)
    _ = unsafe wire.initialize(from: bytes)
  }

  deinit { unsafe wire.deallocate() }

  /// Lets `context` choose by the server's preference. The context must not outlive this.
  func select(on context: OpaquePointer) {
    guard unsafe !wire.isEmpty else { return }
    let opaque = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe SSL_CTX_set_alpn_select_cb(
      context,
      { _, choice, choiceLength, offer, offerLength, opaque in
        guard let opaque = unsafe opaque else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        let protocols = unsafe Unmanaged<ApplicationProtocols>.fromOpaque(opaque).takeUnretainedValue()
        return unsafe protocols.choose(from: offer, offerLength, choice, choiceLength)
      }, opaque)
  }

  /// Offers them to the server of `ssl`, which copies them. False if OpenSSL refuses.
  func offer(on ssl: OpaquePointer) -> Bool {
    // 0 is success here, unlike everywhere else.
    unsafe wire.isEmpty || SSL_set_alpn_protos(ssl, wire.baseAddress, UInt32(wire.count)) == 0
  }

  private func choose(
    from offer: UnsafePointer<UInt8>?, _ offerLength: UInt32,
    _ choice: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ choiceLength: UnsafeMutablePointer<UInt8>?
  ) -> Int32 {
    var found: UnsafeMutablePointer<UInt8>?
    let verdict = unsafe SSL_select_next_proto(
      &found, choiceLength, wire.baseAddress, UInt32(wire.count), offer, offerLength)
    // Not ERR_NOACK, which would go on without a protocol: RFC 7301 §3.2 has the server refuse.
    guard verdict == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    unsafe choice?.pointee = unsafe UnsafePointer(found)
    return SSL_TLSEXT_ERR_OK
  }
}

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
