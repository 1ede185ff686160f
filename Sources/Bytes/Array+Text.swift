/// What every writer of bytes here is made of: literals, numbers and JSON strings, appended without a string on the way.
extension [UInt8] {
  /// Appends the bytes of a literal.
  @inlinable
  public mutating func append(_ literal: StaticString) {
    // Safe: a literal's bytes live as long as the program. One that is spelled out has a pointer representation.
    unsafe append(contentsOf: UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
  }

  /// Appends bytes that live elsewhere.
  @inlinable
  public mutating func append(copying bytes: Span<UInt8>) {
    // Safe: the buffer is read within the closure only.
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }

  /// Appends `number` in decimal, with zeros in front up to `width` digits, at most 20.
  public mutating func append(decimal number: Int, width: Int = 1) {
    if number < 0 { append(UInt8(ascii: "-")) }
    var digits = InlineArray<20, UInt8>(repeating: UInt8(ascii: "0"))
    var rest = number.magnitude
    var start = 20
    repeat {
      start -= 1
      digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    } while rest > 0
    start = Swift.min(start, 20 - Swift.min(width, 20))
    append(addingCapacity: 20 - start) { (output: inout OutputSpan<UInt8>) in
      for index in start..<20 { output.append(digits[index]) }
    }
  }

  /// Appends text as a JSON string (RFC 8259 §7), quotes included.
  public mutating func append(jsonString text: String) {
    append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        append(UInt8(ascii: "\\"))
        append(byte)
      case 0..<0x20, 0x7f:
        append("\\u00")
        append(hexadecimal: byte)
      default:
        append(byte)
      }
    }
    append(UInt8(ascii: "\""))
  }
}
