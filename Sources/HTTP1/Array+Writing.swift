extension [UInt8] {
  /// Appends the bytes of a literal.
  @inline(__always)
  mutating func append(_ literal: StaticString) {
    // Safe: a literal's bytes live as long as the program.
    unsafe append(contentsOf: UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
  }

  /// Appends `value` in decimal, with leading zeros up to `digits`. A negative value is written as 0.
  mutating func appendDecimal(_ value: Int, digits: Int = 1) {
    var rest = Swift.max(value, 0)
    let start = count
    repeat {
      append(.zero &+ UInt8(truncatingIfNeeded: rest % 10))
      rest /= 10
    } while rest > 0 || count - start < digits
    self[start...].reverse()
  }

  /// Appends a field value or a reason phrase. Every control character but HTAB becomes a space, as RFC 9110 §5.5
  /// allows: whatever a handler made of foreign bytes, no line ends where this serializer does not end it.
  mutating func appendSafely(_ bytes: Span<UInt8>) {
    let start = count
    // Safe: the buffer is read within the closure only.
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
    var index = bytes.firstControl(from: 0)
    while index < bytes.count {
      if bytes[index] != .horizontalTab { self[start + index] = .space }
      index = bytes.firstControl(from: index + 1)
    }
  }
}
