import COpenSSL
import Glibc

/// A server's certificate, key and TLS policy, checked and immutable, for any number of sessions on any thread. To change
/// a certificate, make a new context with `resumingTicketsOf:` and use it for new sessions.
///
/// The policy is Mozilla's *intermediate* policy without finite-field DHE: TLS 1.2 with ECDHE and AEAD ciphers, and TLS
/// 1.3; no renegotiation, no compression, no early data. Sessions are resumed by stateless tickets.
///
/// `@unchecked Sendable`: OpenSSL counts references to an `SSL_CTX` and locks it, and once configured it is only read.
/// Everything else here is immutable, and only ``deinit`` frees the memory behind the pointers.
public final class TLSContext: @unchecked Sendable {
  /// The problems of usable files for the operator: one sentence each, to be logged once.
  public let findings: [String]
  /// The expiry time of the certificate, in seconds since 1970.
  public let certificateNotAfter: Int
  /// The further certificates that clients may request by name, each with the name that identifies it.
  public var furtherCertificates: [(name: String, certificate: ServerCertificate)] { choice.certificates }
  /// The digest of the client CAs: equal for the same CAs in the same order, and for no CAs.
  public let clientAuthorities: [UInt8]
  /// The earliest expiry time of the client CAs, in seconds since 1970; nil without client CAs.
  public let clientAuthoritiesNotAfter: Int?
  /// The limits on the cost of a peer.
  public let limits: TLSLimits

  let handle: Handle
  private let protocols: ApplicationProtocols
  private let choice: CertificateChoice
  private let ticketKeys: TicketKeys

  /// Loads and checks a certificate and its key.
  /// - Parameters:
  ///   - certificate: The server's certificate, then each intermediate certificate that leads up to the root.
  ///   - key: The private key of the first certificate, not encrypted.
  ///   - further: The certificates for clients that request a name in them. All other clients get the first one.
  ///   - clientCA: The CAs of client certificates, which the server then requests. One that does not verify is refused.
  ///   - applicationProtocols: ALPN names (RFC 7301), best first. A client that offers ALPN but none of these gets a
  ///     fatal `no_application_protocol` (RFC 7301 §3.2). If empty, ALPN is ignored.
  ///   - previous: The context with session tickets that this one accepts if it has all of that context's private keys,
  ///     so that a reload does not cost clients a full handshake. Tickets also become invalid if the client CAs have
  ///     changed, because a resumed session does not verify the certificate again.
  ///   - sharedTicketKeys: The keys of session tickets from files. They stay when a private key is replaced.
  ///   - now: Returns the time in seconds since 1970, for the age of the process's own ticket keys.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the fix.
  public init(
    certificate: PEMFile, key: PEMFile, further: [ServerCertificate] = [], clientCA: PEMFile? = nil,
    applicationProtocols: [String] = ["http/1.1", "http/1.0"], resumingTicketsOf previous: TLSContext? = nil,
    sharedTicketKeys: TicketKeys? = nil, limits: TLSLimits = TLSLimits(),
    now: @escaping @Sendable () -> Int = TLSContext.systemTime
  ) throws(TLSError) {
    let handle = unsafe try Handle(TLS_server_method())
    let protocols = try ApplicationProtocols(applicationProtocols)
    var findings: [String] = []
    certificateNotAfter = try handle.load(certificate, key, &findings)
    (clientAuthorities, clientAuthoritiesNotAfter) =
      try handle.acceptClientCertificates(of: clientCA, limits, &findings)
    choice = unsafe try CertificateChoice(further, default: handle.pointer, of: certificate.path)
    findings += further.flatMap(\.findings) + choice.findings
    if let sharedTicketKeys {
      ticketKeys = sharedTicketKeys
    } else if let previous, !previous.ticketKeys.areFromFiles, unsafe previous.hasOnlyKeys(of: handle.pointer, further)
    {
      ticketKeys = previous.ticketKeys
    } else {
      ticketKeys = try TicketKeys(now: now)
    }
    unsafe choice.decide(on: handle.pointer)
    unsafe try ticketKeys.use(on: handle.pointer)
    unsafe protocols.select(on: handle.pointer)
    self.handle = handle
    (self.protocols, self.findings, self.limits) = (protocols, findings, limits)
  }

  /// Returns the time in seconds since 1970.
  @Sendable public static func systemTime() -> Int { time(nil) }

  /// An owned `SSL_CTX` with the common policy.
  @safe struct Handle: ~Copyable {
    let pointer: OpaquePointer

    init(_ method: OpaquePointer) throws(TLSError) {
      ErrorQueue.clear()
      guard let pointer = unsafe SSL_CTX_new(method) else {
        throw .internalFailure("OpenSSL cannot create a TLS context.")
      }
      do { unsafe try TLSContext.applyPolicy(to: pointer) } catch {
        unsafe SSL_CTX_free(pointer)
        throw error
      }
      unsafe self.pointer = pointer
    }

    deinit { unsafe SSL_CTX_free(pointer) }
  }

  /// The ciphers of TLS 1.2: only forward secrecy and AEAD, as all of TLS 1.3's, the cheapest first.
  private static let cipherList = [
    "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
  ].joined(separator: ":")

  /// Best first. P-384 is for certificates: TLS 1.2 refuses those with a curve that is not in this list.
  private static let groups = "X25519:P-256:P-384"

  /// OpenSSL's own list without SHA-224, which OpenSSL still offers with ECDSA and RSA in TLS 1.2.
  private static let signatureAlgorithms = [
    "ecdsa_secp256r1_sha256", "ecdsa_secp384r1_sha384", "ecdsa_secp521r1_sha512", "ed25519", "ed448",
    "rsa_pss_pss_sha256", "rsa_pss_pss_sha384", "rsa_pss_pss_sha512",
    "rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384", "rsa_pss_rsae_sha512",
    "rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512",
  ].joined(separator: ":")

  /// Applies the common policy of servers and clients: versions, ciphers, options, modes, sessions.
  private static func applyPolicy(to context: OpaquePointer) throws(TLSError) {
    // Level 2 is 112 bits: no RSA below 2048, no SHA-1. Set here because distributions differ.
    unsafe SSL_CTX_set_security_level(context, 2)
    // ChaCha20 has priority for clients that list it first, because they have no AES in hardware.
    unsafe SSL_CTX_set_options(
      context,
      SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION)
    // An idle connection frees its 2 × 16 KiB of record buffers.
    unsafe SSL_CTX_set_mode(context, Int(SSL_MODE_RELEASE_BUFFERS))
    unsafe SSL_CTX_set_session_cache_mode(context, Int(SSL_SESS_CACHE_OFF))
    let isAccepted =
      unsafe SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1
      && SSL_CTX_set_cipher_list(context, cipherList) == 1
      && SSL_CTX_set1_groups_list(context, groups) == 1
      && SSL_CTX_set1_sigalgs_list(context, signatureAlgorithms) == 1
      // One connection of a keep-alive client needs one ticket for its next connection.
      && SSL_CTX_set_num_tickets(context, 1) == 1
    guard isAccepted else {
      throw .internalFailure("This build of OpenSSL lacks the TLS versions, ciphers or signatures required.")
    }
  }

  /// Returns whether a new context has all private keys of this one, and so may accept its session tickets. When an
  /// operator replaces a leaked key, sessions and ticket keys of the old key must end with it.
  private func hasOnlyKeys(of new: OpaquePointer, _ further: [ServerCertificate]) -> Bool {
    unsafe Self.haveSameKey(handle.pointer, new)
      && choice.certificates.allSatisfy { old in
        further.contains { unsafe Self.haveSameKey(old.certificate.handle.pointer, $0.handle.pointer) }
      }
  }

  private static func haveSameKey(_ old: OpaquePointer, _ new: OpaquePointer) -> Bool {
    // Compares the public halves. Keys of different kinds are not an error, only unequal.
    let isSameKey = unsafe EVP_PKEY_eq(SSL_CTX_get0_privatekey(old), SSL_CTX_get0_privatekey(new)) == 1
    ErrorQueue.clear()
    return isSameKey
  }
}

/// The limits on the cost of a peer, after which a session ends.
///
/// OpenSSL itself limits a record (16 KiB and its overhead), 32 empty records in a row, and 5 warning alerts in a row.
/// The limits here cover the rest, and what OpenSSL limits to more than a client needs.
public struct TLSLimits: Sendable, Equatable {
  /// The maximum number of handshake bytes from the peer, over all its flights, including record headers. 64 KiB: two
  /// ClientHellos and the largest list of certificates, and room for extensions to come.
  public var handshakeBytes = 64 * 1024
  /// The maximum length of a ClientHello in bytes, for which OpenSSL allocates memory when the length arrives. 16 KiB: a
  /// ClientHello with a post-quantum share is 2 KB. OpenSSL's own limit is 128 KiB.
  public var clientHelloBytes = 16 * 1024
  /// The longest Certificate message of a client in bytes. 16 KiB: one of RSA-4096 is 2 KB. OpenSSL allows 100 KiB.
  public var certificateListBytes = 16 * 1024
  /// The most certificates of a client. 8: it has one or two above its own. A parsed certificate takes 4 kB and more.
  public var mostCertificates = 8
  /// The excess of KeyUpdates (RFC 8446 §4.6.3) and, in TLS 1.2, attempts to renegotiate, which cost a response each, over
  /// those that data offset. 32: an honest peer sends one KeyUpdate in 2²⁴ records and never renegotiates.
  public var controlMessages = 32
  /// The application data in bytes, in either direction, that offset one such message. 64 KiB: new keys cost as much
  /// processor time as the encryption of so much. A single byte must not pay for them.
  public var dataPerControlMessage = 64 * 1024

  /// Creates the default limits.
  public init() {}
}

/// The protocols of one side, in the wire format of ALPN (RFC 7301 §3.1) and at a stable address.
@safe final class ApplicationProtocols {
  private let wire: UnsafeMutableBufferPointer<UInt8>

  /// Encodes the names. Throws `configuration` if a name is empty or longer than 255 bytes.
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

  /// Makes `context` choose a protocol by the server's preference. The context must not outlive this object.
  func select(on context: OpaquePointer) {
    guard unsafe !wire.isEmpty else { return }
    let opaque = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe SSL_CTX_set_alpn_select_cb(
      context,
      { _, choice, choiceLength, offer, offerLength, opaque in
        guard let opaque = unsafe opaque else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        let wire = unsafe Unmanaged<ApplicationProtocols>.fromOpaque(opaque).takeUnretainedValue().wire
        var found: UnsafeMutablePointer<UInt8>?
        let verdict = unsafe SSL_select_next_proto(
          &found, choiceLength, wire.baseAddress, UInt32(wire.count), offer, offerLength)
        // Not ERR_NOACK, which would continue without a protocol: RFC 7301 §3.2 requires the server to refuse.
        guard verdict == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        unsafe choice?.pointee = unsafe UnsafePointer(found)
        return SSL_TLSEXT_ERR_OK
      }, opaque)
  }

  /// Offers the protocols to the server of `ssl`, which copies them. Returns false if OpenSSL refuses them.
  func offer(on ssl: OpaquePointer) -> Bool {
    // This function returns 0 for success, unlike all others.
    unsafe wire.isEmpty || SSL_set_alpn_protos(ssl, wire.baseAddress, UInt32(wire.count)) == 0
  }
}
