extension [UInt8] {
  /// Appends UTF-8 as a JSON string (RFC 8259 §7), quotes included. Invalid UTF-8 is replaced.
  public mutating func append(jsonString text: some Collection<UInt8>) {
    append(UInt8(ascii: "\""))
    for byte in String(decoding: text, as: UTF8.self).utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        append(UInt8(ascii: "\\"))
        append(byte)
      case 0..<0x20, 0x7f:
        append(contentsOf: "\\u00".utf8)
        for digit in [byte >> 4, byte & 15] { append(digit < 10 ? 0x30 + digit : 0x57 + digit) }
      default:
        append(byte)
      }
    }
    append(UInt8(ascii: "\""))
  }
}
