import COpenSSL
import TestSupport

/// OpenSSL's own client over memory BIOs: the independent half of each test.
@safe final class TLSClient {
  /// What a client offers and trusts.
  struct Settings: Sendable {
    var version = TLS1_3_VERSION
    var protocols: [String] = ["http/1.1"]
    var serverName = "localhost"
    /// A session to resume, from ``TLSClient/session``.
    var session: Session?
    /// PEM files of a client certificate and its key.
    var certificate: (certificateFile: String, keyFile: String)?
    var cipherList: String?
    var groups: String?
    /// Whether the client verifies the server's certificate, without any trusted authority.
    var verifies = false
  }

  /// A session that can be resumed.
  ///
  /// `@unchecked Sendable`: OpenSSL counts references to the session atomically, and the tests do not change it.
  @safe final class Session: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
      unsafe self.pointer = pointer
    }

    deinit { unsafe SSL_SESSION_free(pointer) }
  }

  /// OpenSSL's number of the first failure: 1000 + the alert's number for an alert from the server.
  private(set) var failure: Int32?

  /// A counter for a callback, which cannot access the client during its initialization.
  private final class TicketCounter {
    var count = 0
  }

  let ssl: OpaquePointer
  private let context: OpaquePointer
  private let tickets = TicketCounter()
  private let incoming: OpaquePointer
  private let outgoing: OpaquePointer

  init(_ settings: Settings = Settings()) throws {
    guard let context = unsafe SSL_CTX_new(TLS_client_method()), let ssl = unsafe SSL_new(context),
      let incoming = unsafe BIO_new(BIO_s_mem()), let outgoing = unsafe BIO_new(BIO_s_mem())
    else { throw TestFailure("There is no memory for a client.") }
    unsafe self.context = unsafe context
    unsafe self.ssl = unsafe ssl
    unsafe self.incoming = unsafe incoming
    unsafe self.outgoing = unsafe outgoing
    unsafe SSL_set_bio(ssl, incoming, outgoing)
    unsafe SSL_set_connect_state(ssl)
    unsafe SSL_set_msg_callback(ssl) { isWritten, _, type, bytes, length, _, counter in
      guard isWritten == 0, type == SSL3_RT_HANDSHAKE, length > 0, let bytes = unsafe bytes else { return }
      guard unsafe bytes.load(as: UInt8.self) == SSL3_MT_NEWSESSION_TICKET, let counter = unsafe counter else { return }
      unsafe Unmanaged<TicketCounter>.fromOpaque(counter).takeUnretainedValue().count += 1
    }
    unsafe SSL_set_msg_callback_arg(ssl, Unmanaged.passUnretained(tickets).toOpaque())
    try apply(settings)
  }

  deinit {
    // OpenSSL invalidates a session that is freed without a shutdown, but another client may be about to resume it.
    unsafe SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
    unsafe SSL_free(ssl)
    unsafe SSL_CTX_free(context)
  }

  /// Returns and removes the bytes that the client has to send.
  func takeOutgoing() -> [UInt8] {
    var bytes = unsafe [UInt8](repeating: 0, count: BIO_ctrl_pending(outgoing))
    guard !bytes.isEmpty else { return [] }
    let count = unsafe BIO_read(outgoing, &bytes, Int32(bytes.count))
    return Array(bytes.prefix(max(0, Int(count))))
  }

  /// Receives ciphertext and continues the handshake if it is not complete.
  func receive(_ ciphertext: [UInt8]) {
    if !ciphertext.isEmpty { unsafe BIO_write(incoming, ciphertext, Int32(ciphertext.count)) }
    ERR_clear_error()
    unsafe SSL_do_handshake(ssl)
    noteFailure()
  }

  /// All bytes that can be decrypted now.
  func read() -> [UInt8] {
    var plaintext: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 * 1024)
    var count = 0
    ERR_clear_error()
    while unsafe SSL_read_ex(ssl, &buffer, buffer.count, &count) == 1 {
      plaintext += buffer[..<count]
    }
    noteFailure()
    return plaintext
  }

  /// Encrypts `plaintext`.
  func write(_ plaintext: [UInt8]) -> [UInt8] {
    ERR_clear_error()
    unsafe SSL_write(ssl, plaintext, Int32(plaintext.count))
    return takeOutgoing()
  }

  /// Sends close_notify.
  func close() -> [UInt8] {
    ERR_clear_error()
    unsafe SSL_shutdown(ssl)
    return takeOutgoing()
  }

  /// Whether the server's close_notify has arrived.
  var isClosedByServer: Bool { unsafe SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0 }

  /// Whether the handshake is complete.
  var isEstablished: Bool { unsafe SSL_is_init_finished(ssl) == 1 }

  /// The number of session tickets received with TLS 1.3.
  var ticketCount: Int { tickets.count }

  /// The session, with its ticket if one was received.
  var session: Session? { unsafe SSL_get1_session(ssl).map { unsafe Session(owning: $0) } }

  private func noteFailure() {
    let code = ERR_peek_last_error()
    if failure == nil, code != 0 { failure = ERR_GET_REASON(code) }
  }

  private func apply(_ settings: Settings) throws {
    unsafe SSL_set_min_proto_version(ssl, settings.version)
    unsafe SSL_set_max_proto_version(ssl, settings.version)
    unsafe SSL_set_tlsext_host_name(ssl, settings.serverName)
    let wire = settings.protocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
    if !wire.isEmpty { unsafe SSL_set_alpn_protos(ssl, wire, UInt32(wire.count)) }
    if let session = settings.session { unsafe SSL_set_session(ssl, session.pointer) }
    if let list = settings.cipherList { unsafe SSL_set_cipher_list(ssl, list) }
    if let groups = settings.groups { unsafe SSL_set1_groups_list(ssl, groups) }
    if settings.verifies { unsafe SSL_set_verify(ssl, SSL_VERIFY_PEER, nil) }
    guard let (certificateFile, keyFile) = settings.certificate else { return }
    guard unsafe SSL_use_certificate_chain_file(ssl, certificateFile) == 1,
      unsafe SSL_use_PrivateKey_file(ssl, keyFile, SSL_FILETYPE_PEM) == 1
    else { throw TestFailure("The client certificate cannot be loaded.") }
  }
}
