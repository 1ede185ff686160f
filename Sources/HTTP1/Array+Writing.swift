import Bytes

extension [UInt8] {
  /// Appends a field value or a reason phrase. Every control character but HTAB becomes a space, as RFC 9110 §5.5
  /// allows: whatever a handler made of foreign bytes, no line ends where this serializer does not end it.
  mutating func appendSafely(_ bytes: Span<UInt8>) {
    let start = count
    append(copying: bytes)
    var index = bytes.firstControl(from: 0)
    while index < bytes.count {
      if bytes[index] != .horizontalTab { self[start + index] = .space }
      index = bytes.firstControl(from: index + 1)
    }
  }
}
