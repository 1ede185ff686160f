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

/// The record that is still arriving, and where records end (RFC 8446 §5.1).
///
/// At a record's first byte OpenSSL takes up buffers of tens of kilobytes; this takes about as much as has arrived.
/// It keeps back only what OpenSSL could do nothing with yet, so no verdict on a peer comes later for it.
struct PartialRecord {
  /// What has arrived of it. Empty between records.
  private(set) var bytes: [UInt8] = []

  /// Whether something came that is no record: OpenSSL gets all that follows, for it to refuse.
  private var isOutOfStep = false

  /// What the next record lacks is moved here from the front of `rest`.
  /// - Returns: All of the record once it is whole, or at once what is no record; otherwise nil.
  mutating func complete(from rest: inout UnsafeRawBufferPointer) -> [UInt8]? {
    unsafe take(Self.headerBytes - bytes.count, from: &rest)
    guard bytes.count >= Self.headerBytes else { return nil }
    if let size = Self.size(of: bytes.prefix(Self.headerBytes)) {
      unsafe take(size - bytes.count, from: &rest)
      guard bytes.count >= size else { return nil }
    } else {
      isOutOfStep = true
    }
    defer { bytes = [] }
    return bytes
  }

  /// How many of `ciphertext`'s bytes OpenSSL can use: its whole records, or all from where it is no record.
  mutating func usableBytes(of ciphertext: UnsafeRawBufferPointer) -> Int {
    var end = 0
    while !isOutOfStep {
      let rest = unsafe ciphertext[end...]
      guard unsafe rest.count >= Self.headerBytes else { return end }
      if let size = unsafe Self.size(of: rest.prefix(Self.headerBytes)) {
        guard unsafe size <= rest.count else { return end }
        end += size
      } else {
        isOutOfStep = true
      }
    }
    return ciphertext.count
  }

  /// Keeps the beginning of a record.
  mutating func keep(_ rest: UnsafeRawBufferPointer) {
    unsafe bytes.append(contentsOf: rest)
  }

  private mutating func take(_ count: Int, from rest: inout UnsafeRawBufferPointer) {
    let part = unsafe rest.prefix(max(0, count))
    unsafe bytes.append(contentsOf: part)
    unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
  }

  /// The size of the record that begins with `header`, header included; nil if OpenSSL would not wait for the rest.
  private static func size<Bytes: Collection<UInt8>>(of header: Bytes) -> Int? where Bytes.Index == Int {
    let at = { Int(header[header.startIndex + $0]) }
    // An SSLv2 ClientHello (RFC 5246 appendix E.2): its length and the message type 1.
    let isOld = at(0) & 0x80 != 0 && at(2) == 1
    guard isOld || at(1) == 3 else { return nil }
    let length = isOld ? (at(0) & 0x7f) << 8 | at(1) : at(3) << 8 | at(4)
    // The length of an SSLv2 message counts from behind its own two bytes.
    return length <= maximumLength ? max(headerBytes, length + (isOld ? 2 : headerBytes)) : nil
  }

  private static let headerBytes = Int(SSL3_RT_HEADER_LENGTH)

  /// The longest record that OpenSSL waits for: 16 KiB, and what encryption and a MAC may add in TLS 1.2.
  private static let maximumLength = Int(SSL3_RT_MAX_PLAIN_LENGTH + SSL3_RT_MAX_ENCRYPTED_OVERHEAD)
}
