import COpenSSL

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
