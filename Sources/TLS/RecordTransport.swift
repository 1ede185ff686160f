import COpenSSL

/// Where OpenSSL reads a session's ciphertext from and writes it to: memory that the caller lends for one call.
///
/// OpenSSL's own memory BIO would copy both ways and keep a buffer for each idle connection; this keeps none.
@safe final class RecordTransport {
  /// What is still unread of the ciphertext that the caller lent. Valid only during the call that lent it.
  var incoming = unsafe UnsafeRawBufferPointer(start: nil, count: 0)

  /// How much of it is still unread.
  var unread: Int { unsafe incoming.count }

  /// What the peer must get: the caller's own array, swapped in for the duration of a call.
  var outgoing: [UInt8] = []

  /// Whether OpenSSL has written anything yet.
  private(set) var hasWritten = false

  /// Messages of the protocol itself since the last application data, see ``TLSLimits/controlMessages``.
  var controlMessages = 0

  /// What OpenSSL passes to the callbacks below. The session outlives its `SSL`, and with it every use of this.
  var opaque: UnsafeMutableRawPointer { unsafe Unmanaged.passUnretained(self).toOpaque() }

  /// A new BIO over this transport, to be owned by one `SSL`: a handshake pushes a filter onto it, so it is never
  /// shared. Nil if there is no memory.
  func makeBIO() -> OpaquePointer? {
    guard let method = unsafe Self.method, let bio = unsafe BIO_new(method) else { return nil }
    unsafe BIO_set_data(bio, opaque)
    unsafe BIO_set_init(bio, 1)
    return unsafe bio
  }

  /// Counts what reaches `ssl` without being application data, and what OpenSSL answers to it on its own.
  func countControlMessages(of ssl: OpaquePointer) {
    unsafe SSL_set_msg_callback(ssl) { isWritten, _, type, _, _, _, transport in
      // A refused renegotiation shows only as the warning that OpenSSL writes (RFC 5746 §4.5).
      guard (type == SSL3_RT_HANDSHAKE && isWritten == 0) || (type == SSL3_RT_ALERT && isWritten == 1) else { return }
      guard let transport = unsafe transport else { return }
      unsafe Unmanaged<RecordTransport>.fromOpaque(transport).takeUnretainedValue().controlMessages &+= 1
    }
    unsafe SSL_set_msg_callback_arg(ssl, opaque)
  }

  private func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let part = unsafe incoming.prefix(buffer.count)
    unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
    unsafe incoming = UnsafeRawBufferPointer(rebasing: incoming.dropFirst(part.count))
    return unsafe part.count
  }

  // The method is made once, never changed and never freed, so any thread may read the pointer to it.
  nonisolated(unsafe) private static let method: OpaquePointer? = unsafe makeMethod()

  private static func makeMethod() -> OpaquePointer? {
    guard let method = unsafe BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lent memory") else {
      return nil
    }
    unsafe BIO_meth_set_read_ex(method) { bio, buffer, capacity, count in
      unsafe BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
      guard let transport = unsafe RecordTransport.of(bio), let count = unsafe count else { return 0 }
      unsafe count.pointee = unsafe transport.read(into: UnsafeMutableRawBufferPointer(start: buffer, count: capacity))
      if unsafe count.pointee > 0 { return 1 }
      // More will come by the next call: without this flag an empty read would be the end of the stream.
      unsafe BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
      return 0
    }
    unsafe BIO_meth_set_write_ex(method) { bio, bytes, length, count in
      guard let transport = unsafe RecordTransport.of(bio) else { return 0 }
      transport.hasWritten = true
      unsafe transport.outgoing.append(contentsOf: unsafe UnsafeRawBufferPointer(start: bytes, count: length))
      unsafe count?.pointee = length
      return 1
    }
    unsafe BIO_meth_set_ctrl(method) { _, command, _, _ in
      // A handshake ends each flight with a flush and fails if it is refused.
      command == BIO_CTRL_FLUSH ? 1 : 0
    }
    return unsafe method
  }

  private static func of(_ bio: OpaquePointer?) -> RecordTransport? {
    guard let data = unsafe BIO_get_data(bio) else { return nil }
    return unsafe Unmanaged<RecordTransport>.fromOpaque(data).takeUnretainedValue()
  }
}
