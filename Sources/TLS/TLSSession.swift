import CLockedMemory
import COpenSSL

/// The TLS of one connection: it maps ciphertext to plaintext and back, without its own socket, clock or thread.
///
/// Confined to one event loop; not `Sendable`. Between calls it keeps no plaintext, and no ciphertext except a part of
/// an incomplete record. After an error send `outgoing`, which may contain an alert, and close the connection.
@safe public final class TLSSession {
  /// The present phase of the session.
  public private(set) var phase = TLSPhase.handshaking

  let ssl: OpaquePointer
  /// The server that a client expects; nil for a server.
  let server: ServerIdentity?
  private let limits: TLSLimits
  /// The context, which owns the targets of OpenSSL's callback pointers.
  private let owner: AnyObject
  let transport = RecordTransport()
  private var partialRecord = PartialRecord()
  private var clientHello = ClientHelloLimit()
  private var handshakeBytes = 0
  private var failure: TLSError?
  private(set) var hasReceived = false

  /// The number of bytes that are kept of an incomplete record, or 0 between records.
  public var heldBytes: Int { partialRecord.bytes.count }

  /// What OpenSSL's memory functions have taken in this session's calls, less what they have freed.
  private var countedBytes = 0

  /// The memory that the session holds: OpenSSL's, and that of an incomplete record.
  public var memoryBytes: Int {
    // What OpenSSL usually holds, for a program that has not replaced its memory functions, such as a test.
    let usual = phase == .handshaking ? 45_056 : 12_288
    return partialRecord.bytes.capacity + (locked_memory_counts_openssl() != 0 ? max(0, countedBytes) : usual)
  }

  /// Creates a session that waits for a client.
  /// - Throws: `TLSError` with the cause `internalFailure` if there is not enough memory.
  public convenience init(_ context: TLSContext) throws(TLSError) {
    unsafe try self.init(context.handle.pointer, owner: context, context.limits, server: nil)
    unsafe SSL_set_accept_state(ssl)
  }

  /// Creates a client's session with the server `host`, verified as such. Call ``start(outgoing:)`` first.
  /// - Parameters:
  ///   - host: A DNS name, or an IP address without brackets. The server's certificate must be for it.
  ///   - applicationProtocols: ALPN names to offer (RFC 7301), best first; empty for no ALPN.
  /// - Throws: `TLSError` with the cause `configuration` if no certificate could be for such a host.
  public convenience init(_ context: TLSClientContext, host: String, applicationProtocols: [String]) throws(TLSError) {
    let context = context.current
    try context.loadSystemStore()
    let protocols = try ApplicationProtocols(applicationProtocols)
    let server = ServerIdentity(host, of: context)
    unsafe try self.init(context.handle.pointer, owner: context, context.limits, server: server)
    unsafe SSL_set_connect_state(ssl)
    guard unsafe protocols.offer(on: ssl) else { throw .internalFailure("OpenSSL refuses the ALPN names.") }
    unsafe try server.expect(on: ssl)
  }

  private init(
    _ context: OpaquePointer, owner: AnyObject, _ limits: TLSLimits, server: ServerIdentity?
  ) throws(TLSError) {
    ErrorQueue.clear()
    let before = locked_memory_openssl_bytes()
    guard let ssl = unsafe SSL_new(context) else {
      throw .internalFailure("The process has no memory for a TLS session.")
    }
    (self.owner, self.limits, self.server) = (owner, limits, server)
    unsafe self.ssl = ssl
    // From here on `deinit` frees `ssl`, even if this initializer throws.
    guard let bio = unsafe transport.makeBIO() else {
      throw .internalFailure("The process has no memory for a TLS session.")
    }
    // For both directions: `SSL_set_bio` takes the one reference.
    unsafe SSL_set_bio(ssl, bio, bio)
    unsafe transport.countControlMessages(of: ssl)
    countedBytes = Int(locked_memory_openssl_bytes() - before)
  }

  /// Begins a call: takes the caller's array, and returns what OpenSSL holds by calls of this thread.
  private func enter(_ outgoing: inout [UInt8]) -> Int64 {
    swap(&transport.outgoing, &outgoing)
    return locked_memory_openssl_bytes()
  }

  /// Ends a call: returns the array, and adds what OpenSSL has taken since `before` to what it holds for this session.
  private func leave(_ outgoing: inout [UInt8], since before: Int64) {
    swap(&transport.outgoing, &outgoing)
    countedBytes += Int(locked_memory_openssl_bytes() - before)
  }

  deinit {
    if server != nil, failure == nil {
      // An `SSL` that is freed before it is closed invalidates its ticket, and servers may close at any time.
      unsafe SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
    }
    unsafe SSL_free(ssl)
  }

  /// Starts the handshake of a client, which sends first: appends the ClientHello. Call it once, before any other method.
  public func start(outgoing: inout [UInt8]) throws(TLSError) {
    let before = enter(&outgoing)
    defer { leave(&outgoing, since: before) }
    try recordingFailure { () throws(TLSError) in try handshake() }
  }

  /// Processes all received ciphertext.
  /// - Parameters:
  ///   - ciphertext: The received bytes, split anywhere.
  ///   - plaintext: Receives the decrypted bytes. Its free capacity is used before it grows.
  ///   - outgoing: Receives bytes for the peer: handshake flights, key updates and, if this function throws, the alert.
  /// - Returns: The present phase. Bytes after a close_notify are ignored, as RFC 8446 §6.1 requires.
  /// - Throws: The error that ended the session. Every later call throws the same error.
  public func receive(
    _ ciphertext: Span<UInt8>, plaintext: inout [UInt8], outgoing: inout [UInt8]
  ) throws(TLSError) -> TLSPhase {
    if let failure { throw failure }
    if !ciphertext.isEmpty { hasReceived = true }
    let before = enter(&outgoing)
    defer { leave(&outgoing, since: before) }
    try recordingFailure { () throws(TLSError) in
      try unsafe ciphertext.withUnsafeBytes { bytes throws(TLSError) in unsafe try receive(bytes, into: &plaintext) }
    }
    return phase
  }

  /// Ends the session, because the peer does not finish the handshake in time. Appends the alert, and returns the error.
  public func expireHandshake(outgoing: inout [UInt8]) -> TLSError {
    let error = TLSError(.limitExceeded, "The peer did not finish the TLS handshake in time.", failure: .timedOut)
    guard failure == nil, phase == .handshaking else { return error }
    let before = enter(&outgoing)
    defer { leave(&outgoing, since: before) }
    failure = error
    writeAlert(SSL_AD_USER_CANCELLED)
    return error
  }

  /// Runs `work`. Every later call throws the same error as `work`.
  private func recordingFailure(_ work: () throws(TLSError) -> Void) throws(TLSError) {
    do throws(TLSError) {
      try work()
    } catch {
      failure = error
      // A ticket that may have caused a failure must not be used again.
      if phase == .handshaking, let server { unsafe server.context.tickets.replace(server.host, with: nil) }
      throw error
    }
  }

  /// Encrypts data, and appends its records. Empty data produces no record.
  /// - Throws: The error that ended the session earlier, or `internalFailure`, also if the handshake has not finished.
  public func send(_ plaintext: Span<UInt8>, outgoing: inout [UInt8]) throws(TLSError) {
    if let failure { throw failure }
    guard phase != .handshaking else {
      throw TLSError(.internalFailure, "The caller sent application data before the TLS handshake finished.")
    }
    guard !plaintext.isEmpty else { return }
    let before = enter(&outgoing)
    defer { leave(&outgoing, since: before) }
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
    transport.noteData(plaintext.count, limits)
  }

  /// Ends sending by close_notify, so that the peer can distinguish the end from a truncation (RFC 8446 §6.1). Does
  /// nothing if the session has failed, was closed before, or never finished its handshake.
  public func close(outgoing: inout [UInt8]) {
    guard failure == nil, phase != .handshaking, unsafe SSL_get_shutdown(ssl) & SSL_SENT_SHUTDOWN == 0 else { return }
    let before = enter(&outgoing)
    defer { leave(&outgoing, since: before) }
    ErrorQueue.clear()
    unsafe SSL_shutdown(ssl)
  }

  /// Passes whole records to OpenSSL, and keeps the beginning of the next record.
  private func receive(_ ciphertext: UnsafeRawBufferPointer, into plaintext: inout [UInt8]) throws(TLSError) {
    var rest = unsafe ciphertext
    if !partialRecord.bytes.isEmpty, let record = unsafe partialRecord.complete(from: &rest) {
      try unsafe record.span.withUnsafeBytes { bytes throws(TLSError) in unsafe try process(bytes, into: &plaintext) }
    }
    // One record at a time, so that a limit and OpenSSL refuse the same bytes in the same order however they arrive.
    // Whole records, the usual case, are read without copying them.
    while phase != .closedByPeer, let record = unsafe partialRecord.next(from: &rest) {
      unsafe try process(record, into: &plaintext)
    }
    guard phase != .closedByPeer else { return }
    unsafe partialRecord.keep(rest)
    if phase == .handshaking { try limitHandshake() }
  }

  /// Makes OpenSSL process a record, or what it has to refuse.
  private func process(_ record: UnsafeRawBufferPointer, into plaintext: inout [UInt8]) throws(TLSError) {
    if phase == .handshaking { try unsafe limitClientHello(in: record) }
    unsafe transport.incoming = record
    defer { unsafe transport.incoming = UnsafeRawBufferPointer(start: nil, count: 0) }
    if phase == .handshaking { try handshake() }
    if phase == .established { try decrypt(into: &plaintext) }
  }

  private func handshake() throws(TLSError) {
    let available = transport.unread
    ErrorQueue.clear()
    let result = unsafe SSL_do_handshake(ssl)
    handshakeBytes += available - transport.unread
    if result == 1 {
      phase = .established
      transport.controlMessages = 0
      unsafe server?.noteChain(of: ssl)
    } else {
      try interpret(result)
    }
    try limitHandshake()
  }

  /// Refuses a ClientHello that is too long before OpenSSL allocates memory for it.
  private func limitClientHello(in record: UnsafeRawBufferPointer) throws(TLSError) {
    // In TLS 1.2, only the first message is a ClientHello, and encrypted records look like others.
    guard server == nil, !partialRecord.isOutOfStep, unsafe SSL_version(ssl) != TLS1_2_VERSION,
      unsafe clientHello.isExceeded(by: record, limits.clientHelloBytes)
    else { return }
    writeAlert(SSL_AD_ILLEGAL_PARAMETER)
    throw TLSError(.limitExceeded, "The peer's ClientHello exceeds \(limits.clientHelloBytes) bytes.")
  }

  private func limitHandshake() throws(TLSError) {
    guard handshakeBytes + heldBytes <= limits.handshakeBytes else {
      if phase == .handshaking { writeAlert(SSL_AD_ILLEGAL_PARAMETER) }
      throw TLSError(.limitExceeded, "The peer's handshake exceeds \(limits.handshakeBytes) bytes.")
    }
  }

  private func decrypt(into plaintext: inout [UInt8]) throws(TLSError) {
    while phase == .established, unsafe transport.unread > 0 || SSL_pending(ssl) > 0 {
      ErrorQueue.clear()
      let count = plaintext.count
      let result = read(into: &plaintext)
      guard transport.controlMessages <= limits.controlMessages else {
        throw TLSError(.limitExceeded, "The peer sent too many TLS control messages for the data between them.")
      }
      if result == 1 { transport.noteData(plaintext.count - count, limits) } else { try interpret(result) }
    }
  }

  /// Calls `SSL_read_ex` once, into the array's free capacity, or into new capacity if that is small.
  private func read(into plaintext: inout [UInt8]) -> Int32 {
    let room = plaintext.capacity - plaintext.count
    // The array grows geometrically, so that a long message is not copied once per record.
    let wanted = room >= Self.scantRoom ? room : max(Int(SSL3_RT_MAX_PLAIN_LENGTH), plaintext.count)
    var result: Int32 = 0
    plaintext.append(addingCapacity: wanted) { (output: inout OutputSpan<UInt8>) in
      result = unsafe output.withUnsafeMutableBufferPointer { buffer, count in
        unsafe SSL_read_ex(ssl, buffer.baseAddress, buffer.count, &count)
      }
    }
    return result
  }

  /// The capacity in bytes below which growing the array costs less than splitting records into small parts.
  private static let scantRoom = 512

  /// Interprets the result of an unsuccessful call: wait for more, the end, or an error.
  private func interpret(_ result: Int32) throws(TLSError) {
    switch unsafe SSL_get_error(ssl, result) {
    case SSL_ERROR_WANT_READ: return
    case SSL_ERROR_ZERO_RETURN: phase = .closedByPeer
    default: throw unsafe .failure(of: ssl, server: server)
    }
  }

  /// The error if the peer closes during the handshake; nil if it sent no byte, as load balancers do to check a port.
  public var unfinishedHandshake: TLSError? {
    guard phase == .handshaking, hasReceived else { return nil }
    return TLSError(.violationByPeer, "The peer closed the connection during the TLS handshake.", failure: .closed)
  }

  /// Writes a fatal alert. OpenSSL has no function for this.
  func writeAlert(_ alert: Int32) {
    // If nothing has been sent, the alert is not encrypted (RFC 8446 §5.1).
    guard transport.hasWritten else {
      transport.outgoing += [UInt8(SSL3_RT_ALERT), 3, 3, 0, 2, UInt8(SSL3_AL_FATAL), UInt8(truncatingIfNeeded: alert)]
      return
    }
    // The header of a record that is too long makes OpenSSL write an alert, record_overflow, encrypted if necessary.
    let header: [UInt8] = [UInt8(SSL3_RT_APPLICATION_DATA), 3, 3, 0xff, 0xff]
    unsafe header.withUnsafeBytes { bytes in
      unsafe transport.incoming = bytes
      ErrorQueue.clear()
      unsafe SSL_do_handshake(ssl)
      ErrorQueue.clear()
      unsafe transport.incoming = UnsafeRawBufferPointer(start: nil, count: 0)
    }
  }

  /// Whether the handshake has finished and the peer has not closed.
  public var isEstablished: Bool { phase == .established }
  /// Whether a ticket of an earlier session replaced the full handshake.
  public var wasResumed: Bool { unsafe SSL_session_reused(ssl) == 1 }

  /// The protocol chosen by ALPN (RFC 7301), or nil if the client did not use ALPN.
  public var applicationProtocol: String? {
    var name: UnsafePointer<UInt8>?
    var length: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &length)
    guard let name = unsafe name else { return nil }
    return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
  }

  /// The client's certificate, verified in this handshake or that of the resumed session; read again by each access.
  public var clientCertificate: ClientCertificate? {
    unsafe SSL_get0_peer_certificate(ssl).flatMap { unsafe ClientCertificate($0, authorities: authorities) }
  }

  /// The digest of the client CAs that the session is bound to.
  private var authorities: [UInt8] {
    guard let session = unsafe SSL_get_session(ssl) else { return [] }
    var length: UInt32 = 0
    guard let identity = unsafe SSL_SESSION_get0_id_context(session, &length) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: identity, count: Int(length)))
  }
}

/// The phase of a session.
public enum TLSPhase: Sendable, Equatable {
  /// The handshake is in progress; more messages of the peer are needed.
  case handshaking
  case established
  /// The peer has sent close_notify and sends no more data. It still accepts data from this side (RFC 8446 §6.1).
  case closedByPeer
}

/// The error queue of this thread, which all sessions on it share.
enum ErrorQueue {
  /// Empties the queue before a call, because `SSL_get_error` treats any entry as a failure of the present session.
  static func clear() {
    // A check costs a fraction of emptying the sixteen entries, which are nearly always empty.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }

  /// Empties the queue, and returns whether an allocation failed.
  static func takeMemoryFailure() -> Bool {
    var isFound = false
    while case let code = ERR_get_error(), code != 0 {
      if ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE { isFound = true }
    }
    // Frees the texts of the entries, which would otherwise be freed by, and so credited to, another session.
    ERR_clear_error()
    return isFound
  }
}
