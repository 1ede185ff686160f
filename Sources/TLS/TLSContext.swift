import COpenSSL
import Glibc

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
  ///   - certificateFile: PEM: the server's certificate, then each intermediate one that leads up to the root.
  ///   - keyFile: PEM: the private key of the first certificate, not encrypted.
  ///   - clientCAFile: PEM: the CAs whose client certificates are accepted. If given, the server requests one. A client
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
    certificateFile: String, keyFile: String, clientCAFile: String? = nil,
    applicationProtocols: [String] = ["http/1.1", "http/1.0"], resumingTicketsOf previous: TLSContext? = nil,
    limits: TLSLimits = TLSLimits(), now: @escaping @Sendable () -> Int = TLSContext.systemTime
  ) throws(TLSError) {
    let handle = try Handle(.server)
    let protocols = try ApplicationProtocols(applicationProtocols)
    var findings: [String] = []
    unsafe try Self.applyPolicy(to: handle.pointer)
    certificateNotAfter = unsafe try Self.loadChain(certificateFile, into: handle.pointer, &findings)
    unsafe try Self.loadKey(keyFile, of: certificateFile, into: handle.pointer, &findings)
    clientAuthorities = unsafe try Self.acceptClientCertificates(of: clientCAFile, handle.pointer, &findings)
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
