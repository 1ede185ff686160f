import COpenSSL

/// One connection's TLS: ciphertext in, plaintext and ciphertext out, with no socket, clock or thread of its own.
///
/// Confined to one event loop; not `Sendable`. Between calls it holds neither plaintext nor ciphertext, except the part
/// of a record that has arrived so far.
///
/// After an error the session is over: send what is in `outgoing`, which holds the alert if there is one to send, and
/// close the connection.
@safe public final class TLSSession {
  /// Where a session stands.
  public enum State: Sendable, Equatable {
    /// The handshake is under way; the peer's part of it is still to come.
    case handshaking
    /// Both sides may send application data.
    case established
    /// The peer has sent close_notify and sends no more; it still takes what we send (RFC 8446 §6.1).
    case closedByPeer
  }

  /// Where the session stands.
  public private(set) var state = State.handshaking

  /// Which side of the handshake a session is.
  enum Role { case server, client }

  let ssl: OpaquePointer
  /// Whom a client expects; nil for a server.
  let server: ServerIdentity?
  private let limits: TLSLimits
  /// The context, which owns what OpenSSL's callbacks point to.
  private let owner: AnyObject
  let transport = RecordTransport()
  private var partialRecord = PartialRecord()
  private var handshakeBytes = 0
  private var failure: TLSError?
  /// Whether the peer has sent anything.
  private(set) var hasReceived = false

  /// How much of a record is kept until the rest of it arrives, in bytes. 0 between records.
  public var heldBytes: Int { partialRecord.bytes.count }

  /// A session that waits for a client.
  /// - Throws: `TLSError` with the cause `internalFailure` if there is no memory for it.
  public convenience init(_ context: TLSContext) throws(TLSError) {
    unsafe try self.init(context.handle.pointer, owner: context, context.limits, server: nil)
    unsafe SSL_set_accept_state(ssl)
  }

  /// A session with the server called `host`, verified as such; to be begun with ``start(outgoing:)``.
  /// - Parameters:
  ///   - context: Whom to trust, and the tickets of earlier sessions.
  ///   - host: A DNS name, or an IP address without brackets. The server's certificate must be for it.
  ///   - applicationProtocols: ALPN names to offer (RFC 7301), best first; none for no ALPN.
  /// - Throws: `TLSError` with the cause `configuration` if no certificate could be for such a host.
  public convenience init(
    _ context: TLSClientContext, host: String, applicationProtocols: [String]
  ) throws(TLSError) {
    try context.loadSystemStore()
    let protocols = try ApplicationProtocols(applicationProtocols)
    let server = ServerIdentity(host, tickets: context.tickets, caSetting: context.caSetting)
    unsafe try self.init(context.handle.pointer, owner: context, context.limits, server: server)
    unsafe SSL_set_connect_state(ssl)
    guard unsafe protocols.offer(on: ssl) else { throw .internalFailure("OpenSSL takes no ALPN names.") }
    unsafe try server.expect(on: ssl)
  }

  private init(
    _ context: OpaquePointer, owner: AnyObject, _ limits: TLSLimits, server: ServerIdentity?
  ) throws(TLSError) {
    ErrorQueue.clear()
    guard let ssl = unsafe SSL_new(context) else {
      throw .internalFailure("There is no memory for a TLS session.")
    }
    self.owner = owner
    self.limits = limits
    self.server = server
    unsafe self.ssl = ssl
    // From here on `deinit` frees it, even if this throws.
    guard let bio = unsafe transport.makeBIO() else { throw .internalFailure("There is no memory for a TLS session.") }
    // For both directions: it takes over the one reference.
    unsafe SSL_set_bio(ssl, bio, bio)
    unsafe transport.countControlMessages(of: ssl)
  }

  deinit {
    if server != nil, failure == nil {
      // Freed without having been closed, it would void its ticket, and servers close as they like.
      unsafe SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
    }
    unsafe SSL_free(ssl)
  }

  /// Begins the handshake of a client, which has the first word. Once, before anything else.
  /// - Parameter outgoing: Gets the ClientHello, appended.
  /// - Throws: `TLSError` if there is no memory for it.
  public func start(outgoing: inout [UInt8]) throws(TLSError) {
    swap(&transport.outgoing, &outgoing)
    defer { swap(&transport.outgoing, &outgoing) }
    try recordingFailure { () throws(TLSError) in try handshake() }
  }

  /// Takes all of the ciphertext that arrived and does whatever follows from it.
  /// - Parameters:
  ///   - ciphertext: What arrived, cut anywhere.
  ///   - plaintext: Gets what can be decrypted, appended. Room that the array has is used before it grows.
  ///   - outgoing: Gets what the peer must be sent, appended: handshake flights, key updates and, if this throws, the
  ///     alert.
  /// - Returns: Where the session stands now. Bytes after a close_notify are ignored, as RFC 8446 §6.1 wants it.
  /// - Throws: What ended the session. Every later call throws the same.
  public func receive(
    _ ciphertext: Span<UInt8>, plaintext: inout [UInt8], outgoing: inout [UInt8]
  ) throws(TLSError) -> State {
    if let failure { throw failure }
    if !ciphertext.isEmpty { hasReceived = true }
    swap(&transport.outgoing, &outgoing)
    defer { swap(&transport.outgoing, &outgoing) }
    try recordingFailure { () throws(TLSError) in
      try unsafe ciphertext.withUnsafeBytes { bytes throws(TLSError) in
        unsafe try receive(bytes, into: &plaintext)
      }
    }
    return state
  }

  /// Ends a handshake that is under way with an alert; every later call throws `error`.
  func endHandshake(with error: TLSError, _ alert: Int32, outgoing: inout [UInt8]) {
    guard failure == nil, state == .handshaking else { return }
    swap(&transport.outgoing, &outgoing)
    defer { swap(&transport.outgoing, &outgoing) }
    failure = error
    writeAlert(alert)
  }

  /// Does `work`; what it throws is what every later call throws.
  private func recordingFailure(_ work: () throws(TLSError) -> Void) throws(TLSError) {
    do throws(TLSError) {
      try work()
    } catch {
      failure = error
      // A ticket that is part of a failure must not be part of the next.
      if state == .handshaking { server?.forgetTicket() }
      throw error
    }
  }

  /// Encrypts, in records of at most 16 KiB.
  /// - Parameters:
  ///   - plaintext: What the peer is to get. Nothing at all makes no record.
  ///   - outgoing: Gets the records, appended.
  /// - Throws: What ended the session earlier, or `internalFailure`, also if the handshake has not finished.
  public func send(_ plaintext: Span<UInt8>, outgoing: inout [UInt8]) throws(TLSError) {
    if let failure { throw failure }
    guard state != .handshaking else {
      throw TLSError(.internalFailure, "Application data was to be sent before the TLS handshake finished.")
    }
    guard !plaintext.isEmpty else { return }
    swap(&transport.outgoing, &outgoing)
    defer { swap(&transport.outgoing, &outgoing) }
    ErrorQueue.clear()
    let isWritten = unsafe plaintext.withUnsafeBytes { bytes in
      var count = 0
      return unsafe SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &count) == 1
    }
    guard isWritten else {
      let error = unsafe TLSError.failure(of: ssl, server: server)
      failure = error
      throw error
    }
  }

  /// Says close_notify, so that the peer can tell the end from a cut (RFC 8446 §6.1). Nothing can be sent after it.
  ///
  /// Does nothing if the session failed, was closed before, or never got through its handshake.
  public func close(outgoing: inout [UInt8]) {
    guard failure == nil, state != .handshaking, unsafe SSL_get_shutdown(ssl) & SSL_SENT_SHUTDOWN == 0 else { return }
    swap(&transport.outgoing, &outgoing)
    defer { swap(&transport.outgoing, &outgoing) }
    ErrorQueue.clear()
    unsafe SSL_shutdown(ssl)
  }

  /// Hands whole records to OpenSSL, and keeps the beginning of the next one.
  private func receive(_ ciphertext: UnsafeRawBufferPointer, into plaintext: inout [UInt8]) throws(TLSError) {
    var rest = unsafe ciphertext
    if !partialRecord.bytes.isEmpty, let record = unsafe partialRecord.complete(from: &rest) {
      try unsafe record.span.withUnsafeBytes { bytes throws(TLSError) in
        unsafe try process(bytes, into: &plaintext)
      }
    }
    // Whole records, which is the usual case, are read where they are.
    let usable = unsafe partialRecord.usableBytes(of: rest)
    unsafe try process(UnsafeRawBufferPointer(rebasing: rest.prefix(usable)), into: &plaintext)
    guard state != .closedByPeer else { return }
    unsafe partialRecord.keep(UnsafeRawBufferPointer(rebasing: rest.dropFirst(usable)))
    if state == .handshaking { try limitHandshake() }
  }

  /// Has OpenSSL do whatever follows from `records`.
  private func process(_ records: UnsafeRawBufferPointer, into plaintext: inout [UInt8]) throws(TLSError) {
    // It would take up its buffers even to find that there is nothing to read.
    guard unsafe !records.isEmpty else { return }
    unsafe transport.incoming = records
    defer { unsafe transport.incoming = UnsafeRawBufferPointer(start: nil, count: 0) }
    if state == .handshaking { try handshake() }
    if state == .established { try decrypt(into: &plaintext) }
  }

  private func handshake() throws(TLSError) {
    let available = transport.unread
    ErrorQueue.clear()
    let result = unsafe SSL_do_handshake(ssl)
    handshakeBytes += available - transport.unread
    if result == 1 {
      state = .established
      transport.controlMessages = 0
    } else {
      try settle(result)
    }
    try limitHandshake()
  }

  private func limitHandshake() throws(TLSError) {
    guard handshakeBytes + heldBytes <= limits.handshakeBytes else {
      if state == .handshaking { writeAlert(SSL_AD_ILLEGAL_PARAMETER) }
      throw TLSError(.limitExceeded, "The peer's handshake exceeds \(limits.handshakeBytes) bytes.")
    }
  }

  private func decrypt(into plaintext: inout [UInt8]) throws(TLSError) {
    while state == .established, unsafe transport.unread > 0 || SSL_pending(ssl) > 0 {
      ErrorQueue.clear()
      let result = read(into: &plaintext)
      guard transport.controlMessages <= limits.controlMessages else {
        throw TLSError(
          .limitExceeded, "The peer sent \(transport.controlMessages) TLS control messages without any data between.")
      }
      if result == 1 { transport.controlMessages = 0 } else { try settle(result) }
    }
  }

  /// One call of `SSL_read_ex`, into the room that the array has, or into new room if that is scant.
  private func read(into plaintext: inout [UInt8]) -> Int32 {
    let room = plaintext.capacity - plaintext.count
    // Growth is geometric, so that a long message is not copied once per record.
    let wanted = room >= Self.scantRoom ? room : max(Int(SSL3_RT_MAX_PLAIN_LENGTH), plaintext.count)
    var result: Int32 = 0
    plaintext.append(addingCapacity: wanted) { (output: inout OutputSpan<UInt8>) in
      result = unsafe output.withUnsafeMutableBufferPointer { buffer, count in
        unsafe SSL_read_ex(ssl, buffer.baseAddress, buffer.count, &count)
      }
    }
    return result
  }

  /// Below this, to grow the array costs less than to cut records into crumbs.
  private static let scantRoom = 512

  /// Decides what a call that did not succeed means: wait for more, the end, or an error.
  private func settle(_ result: Int32) throws(TLSError) {
    switch unsafe SSL_get_error(ssl, result) {
    case SSL_ERROR_WANT_READ: return
    case SSL_ERROR_ZERO_RETURN: state = .closedByPeer
    default: throw unsafe .failure(of: ssl, server: server)
    }
  }
}

/// How a server ends a handshake that it has waited for long enough.
extension TLSSession {
  /// Gives up a handshake that the peer does not finish in time. The session is over then.
  /// - Parameter outgoing: Gets the alert, appended.
  /// - Returns: What happened.
  public func expireHandshake(outgoing: inout [UInt8]) -> TLSError {
    let error = TLSError(.limitExceeded, "The peer did not finish the TLS handshake in time.", failure: .timedOut)
    endHandshake(with: error, SSL_AD_USER_CANCELLED, outgoing: &outgoing)
    return error
  }

  /// What happened when the peer closed its side before the handshake was done; nil if it never sent a byte, as load
  /// balancers do that only look whether the port is open.
  public var unfinishedHandshake: TLSError? {
    guard state == .handshaking, hasReceived else { return nil }
    return TLSError(.violationByPeer, "The peer closed the connection during the TLS handshake.", failure: .closed)
  }

  /// Writes a fatal alert. OpenSSL has no function for it.
  func writeAlert(_ alert: Int32) {
    // Nothing has been sent: so nothing is encrypted yet (RFC 8446 §5.1).
    guard transport.hasWritten else {
      transport.outgoing += [UInt8(SSL3_RT_ALERT), 3, 3, 0, 2, UInt8(SSL3_AL_FATAL), UInt8(truncatingIfNeeded: alert)]
      return
    }
    // The header of a record that is too long has OpenSSL write an alert, encrypted if it has to be: record_overflow.
    let header: [UInt8] = [UInt8(SSL3_RT_APPLICATION_DATA), 3, 3, 0xff, 0xff]
    unsafe header.withUnsafeBytes { bytes in
      unsafe transport.incoming = bytes
      ErrorQueue.clear()
      unsafe SSL_do_handshake(ssl)
      ErrorQueue.clear()
      unsafe transport.incoming = UnsafeRawBufferPointer(start: nil, count: 0)
    }
  }
}

/// What the handshake settled, and what the client said about itself.
extension TLSSession {
  /// Whether the handshake finished and the peer has not closed.
  public var isEstablished: Bool { state == .established }

  /// Whether a ticket of an earlier session spared the full handshake.
  public var wasResumed: Bool { unsafe SSL_session_reused(ssl) == 1 }

  /// The protocol version, as OpenSSL writes it: `TLSv1.2` or `TLSv1.3`.
  public var version: String { unsafe SSL_get_version(ssl).map { unsafe String(cString: $0) } ?? "unknown" }

  /// The cipher suite by OpenSSL's name, for example `TLS_AES_256_GCM_SHA384`; nil before it is chosen.
  public var cipher: String? {
    unsafe SSL_get_current_cipher(ssl).flatMap { unsafe SSL_CIPHER_get_name($0) }.map { unsafe String(cString: $0) }
  }

  /// The host that the client asked for (RFC 6066 §3), unchecked. It has no say in which certificate is shown. A
  /// resumed TLS 1.2 session has none.
  public var serverName: String? {
    unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name).map { unsafe String(cString: $0) }
  }

  /// The protocol chosen by ALPN (RFC 7301); nil if the client did not use it.
  public var applicationProtocol: String? {
    var name: UnsafePointer<UInt8>?
    var length: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &length)
    guard let name = unsafe name else { return nil }
    return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
  }

  /// The client's certificate, verified against the client CAs in this handshake or in the one of the session that it
  /// resumes; nil if it sent none. Read afresh each time.
  public var clientCertificate: ClientCertificate? {
    unsafe SSL_get0_peer_certificate(ssl).flatMap { unsafe ClientCertificate($0, authorities: authorities) }
  }

  /// What the session is tied to: see ``SessionIdentity``.
  private var authorities: [UInt8] {
    guard let session = unsafe SSL_get_session(ssl) else { return [] }
    var length: UInt32 = 0
    guard let identity = unsafe SSL_SESSION_get0_id_context(session, &length) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: identity, count: Int(length)))
  }
}

/// The session ID context: what a session ticket must have been issued under to be honoured.
///
/// A resumed session carries the client certificate that was verified when it began. So the context is a digest of the
/// client CAs, and to drop a CA voids the sessions that rest on it.
struct SessionIdentity {
  /// The context, 32 bytes.
  private(set) var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))

  /// Adds a client CA. False if OpenSSL fails to digest it.
  mutating func add(_ authority: borrowing Certificate) -> Bool {
    var fingerprint = digest
    guard unsafe X509_digest(authority.pointer, EVP_sha256(), &fingerprint, nil) == 1 else { return false }
    // Chained, so that it depends on each of them and on their order.
    let input = digest + fingerprint
    return unsafe EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1
  }

  /// Sets it. False if OpenSSL refuses.
  func set(on context: OpaquePointer) -> Bool {
    unsafe SSL_CTX_set_session_id_context(context, digest, UInt32(digest.count)) == 1
  }
}
