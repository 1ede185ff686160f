import COpenSSL

/// A BIO over memory that the caller lends for one call. OpenSSL reads and writes a session's ciphertext there. Its own
/// memory BIO would copy in both directions and keep a buffer for each idle connection.
@safe final class RecordTransport {
  /// The unread rest of the lent ciphertext, valid only during the call that lends it.
  var incoming = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
  var unread: Int { unsafe incoming.count }
  /// The bytes for the peer: the caller's own array, swapped in during a call.
  var outgoing: [UInt8] = []
  private(set) var hasWritten = false
  /// The number of protocol messages that application data have not offset: see ``TLSLimits/controlMessages``.
  var controlMessages = 0
  /// The application data that have not offset a message yet.
  private var dataBytes = 0

  /// The pointer that OpenSSL passes to the callbacks below. The session outlives its `SSL`.
  var opaque: UnsafeMutableRawPointer { unsafe Unmanaged.passUnretained(self).toOpaque() }

  /// Returns a new BIO over this transport, for one `SSL`, or nil if there is not enough memory.
  func makeBIO() -> OpaquePointer? {
    guard let method = unsafe Self.method, let bio = unsafe BIO_new(method) else { return nil }
    unsafe BIO_set_data(bio, opaque)
    unsafe BIO_set_init(bio, 1)
    return unsafe bio
  }

  /// Counts messages to `ssl` other than application data, and OpenSSL's own responses to them.
  func countControlMessages(of ssl: OpaquePointer) {
    unsafe SSL_set_msg_callback(ssl) { isWritten, _, type, _, _, _, transport in
      // A refused renegotiation is visible only in the warning that OpenSSL writes (RFC 5746 §4.5).
      guard (type == SSL3_RT_HANDSHAKE && isWritten == 0) || (type == SSL3_RT_ALERT && isWritten == 1) else { return }
      guard let transport = unsafe transport else { return }
      unsafe Unmanaged<RecordTransport>.fromOpaque(transport).takeUnretainedValue().controlMessages &+= 1
    }
    unsafe SSL_set_msg_callback_arg(ssl, opaque)
  }

  /// Offsets control messages by application data.
  func noteData(_ count: Int, _ limits: TLSLimits) {
    dataBytes += count
    guard dataBytes >= limits.dataPerControlMessage else { return }
    controlMessages = max(0, controlMessages - dataBytes / limits.dataPerControlMessage)
    dataBytes %= limits.dataPerControlMessage
  }

  private func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let part = unsafe incoming.prefix(buffer.count)
    unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
    unsafe incoming = UnsafeRawBufferPointer(rebasing: incoming.dropFirst(part.count))
    return unsafe part.count
  }

  // Safe: the method is made once, never changed and never freed, so any thread may read the pointer to it.
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
      // More bytes come with the next call. Without this flag an empty read would be the end of the stream.
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
      // A handshake ends each flight with a flush, and fails if the flush fails.
      command == BIO_CTRL_FLUSH ? 1 : 0
    }
    return unsafe method
  }

  private static func of(_ bio: OpaquePointer?) -> RecordTransport? {
    unsafe BIO_get_data(bio).map { unsafe Unmanaged.fromOpaque($0).takeUnretainedValue() }
  }
}

/// A buffer for the incomplete record at the end of the received bytes, and the search for record ends (RFC 8446 §5.1).
///
/// At a record's first byte OpenSSL allocates buffers of tens of kilobytes; this one needs about as much as the received
/// bytes. It keeps only bytes that OpenSSL could not process yet, so it delays no error about a peer.
struct PartialRecord {
  /// The received bytes of the record, empty between records.
  private(set) var bytes: [UInt8] = []
  /// Whether the peer sent something that is not a record. OpenSSL then gets all further bytes and refuses them.
  private(set) var isOutOfStep = false

  /// Moves the missing bytes of the next record from the front of `rest`.
  /// - Returns: The whole record once it is complete, or the bytes so far if they are not a record. Otherwise nil.
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

  /// Removes the next record from the front of `rest`, or all bytes once the input is not a record.
  /// - Returns: The record; nil if it is not complete.
  mutating func next(from rest: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    guard unsafe !rest.isEmpty else { return nil }
    var end = rest.count
    if !isOutOfStep {
      guard rest.count >= Self.headerBytes else { return nil }
      if let size = unsafe Self.size(of: rest.prefix(Self.headerBytes)) { end = size } else { isOutOfStep = true }
      guard end <= rest.count else { return nil }
    }
    defer { unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(end)) }
    return unsafe UnsafeRawBufferPointer(rebasing: rest.prefix(end))
  }

  /// Keeps the beginning of a record.
  mutating func keep(_ rest: UnsafeRawBufferPointer) { unsafe bytes.append(contentsOf: rest) }

  private mutating func take(_ count: Int, from rest: inout UnsafeRawBufferPointer) {
    let part = unsafe rest.prefix(max(0, count))
    unsafe bytes.append(contentsOf: part)
    unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(part.count))
  }

  /// Returns the size of the record with this header, header included; nil if OpenSSL would not wait for the rest.
  private static func size<Bytes: Collection<UInt8>>(of header: Bytes) -> Int? where Bytes.Index == Int {
    let at = { Int(header[header.startIndex + $0]) }
    // An SSLv2 ClientHello (RFC 5246 appendix E.2) has its length and the message type 1.
    let isOld = at(0) & 0x80 != 0 && at(2) == 1
    guard isOld || at(1) == 3 else { return nil }
    let length = isOld ? (at(0) & 0x7f) << 8 | at(1) : at(3) << 8 | at(4)
    // The length of an SSLv2 message does not include its own two bytes.
    return length <= maximumLength ? max(headerBytes, length + (isOld ? 2 : headerBytes)) : nil
  }

  private static let headerBytes = Int(SSL3_RT_HEADER_LENGTH)
  /// The longest record that OpenSSL accepts: 16 KiB, and the overhead of encryption and a MAC in TLS 1.2.
  private static let maximumLength = Int(SSL3_RT_MAX_PLAIN_LENGTH + SSL3_RT_MAX_ENCRYPTED_OVERHEAD)
}

/// The search for ClientHellos that announce more bytes than a server waits for.
///
/// OpenSSL allocates, and fills, the whole announced length of a ClientHello when its first four bytes arrive: up to
/// 128 KiB for a peer that then sends nothing. A client sends ClientHellos unencrypted: first, and in TLS 1.3 once more
/// after a HelloRetryRequest (RFC 8446 §4.1.4). OpenSSL limits all other messages of a client.
struct ClientHelloLimit {
  /// The bytes of the present message's header (RFC 8446 §4), and how many there are.
  private var header: UInt32 = 0
  private var headerCount = 0
  /// The bytes of the present message that are still to come.
  private var rest = 0

  /// Returns whether an unencrypted `record` continues or begins a ClientHello of more than `limit` bytes.
  mutating func isExceeded(by record: UnsafeRawBufferPointer, _ limit: Int) -> Bool {
    // An SSLv2 ClientHello is one record, and so no longer than one.
    guard unsafe record[0] == UInt8(SSL3_RT_HANDSHAKE) else { return false }
    let content = unsafe UnsafeRawBufferPointer(rebasing: record.dropFirst(Self.recordHeader))
    var next = 0
    while next < content.count {
      if rest > 0 {
        let part = min(rest, content.count - next)
        (rest, next) = (rest - part, next + part)
        continue
      }
      header = unsafe header << 8 | UInt32(content[next])
      (headerCount, next) = (headerCount + 1, next + 1)
      guard headerCount == Self.messageHeader else { continue }
      rest = Int(header & 0xff_ffff)
      headerCount = 0
      if header >> 24 == UInt32(SSL3_MT_CLIENT_HELLO), rest > limit { return true }
    }
    return false
  }

  private static let recordHeader = Int(SSL3_RT_HEADER_LENGTH)
  private static let messageHeader = Int(SSL3_HM_HEADER_LENGTH)
}
