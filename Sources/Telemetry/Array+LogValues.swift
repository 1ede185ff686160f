import Bytes

extension [UInt8] {
  /// `text` in quotes, as RFC 8259 §7 has it.
  mutating func appendJSONString(_ text: String) {
    append(UInt8(ascii: "\""))
    appendEscaped(text, quote: UInt8(ascii: "\""))
    append(UInt8(ascii: "\""))
  }

  /// `text` bare if it is one plain word, else in quotes.
  mutating func appendTextValue(_ text: String) {
    let isWord =
      !text.isEmpty
      && text.utf8.allSatisfy { $0.isPlain && $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "=") }
    if isWord { append(contentsOf: text.utf8) } else { appendJSONString(text) }
  }

  /// `text` with whatever is no plain character escaped as in JSON; the quote only if there is one.
  mutating func appendEscaped(_ text: String, quote: UInt8?) {
    // Nearly everything that is logged is plain, and is copied at once.
    if text.utf8.allSatisfy(\.isPlain) { return append(contentsOf: text.utf8) }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"" where quote == nil: append(UInt8(ascii: "\""))
      case "\"", "\\": append(contentsOf: [UInt8(ascii: "\\"), UInt8(scalar.value)])
      case "\n": append(contentsOf: "\\n".utf8)
      case "\r": append(contentsOf: "\\r".utf8)
      case "\t": append(contentsOf: "\\t".utf8)
      default:
        if scalar.isInvisible { appendUnicodeEscape(scalar) } else { append(contentsOf: String(scalar).utf8) }
      }
    }
  }

  /// `duration` in milliseconds with three decimals; 0 if it is negative.
  mutating func appendMilliseconds(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    let microseconds = Int(attoseconds / 1_000_000_000_000)
    let (scaled, overflow) = Int(seconds).multipliedReportingOverflow(by: 1000)
    let milliseconds = overflow ? Int.max : scaled.addingReportingOverflow(microseconds / 1000).partialValue
    guard duration >= .zero, milliseconds >= 0 else { return append(contentsOf: "0.000".utf8) }
    append(decimal: milliseconds)
    append(UInt8(ascii: "."))
    append(decimal: microseconds % 1000, width: 3)
  }

  private mutating func appendUnicodeEscape(_ scalar: UnicodeScalar) {
    // Every invisible character below is in the basic plane, so four digits do.
    append(contentsOf: "\\u".utf8)
    for shift in stride(from: 12, through: 0, by: -4) {
      let digit = UInt8(truncatingIfNeeded: scalar.value >> UInt32(shift)) & 0xF
      append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
    }
  }
}

extension UInt8 {
  /// Whether it is printable ASCII and means nothing special between quotes.
  fileprivate var isPlain: Bool {
    (0x20..<0x7F).contains(self) && self != UInt8(ascii: "\"") && self != UInt8(ascii: "\\")
  }
}

extension UnicodeScalar {
  /// Whether it is a control character, a line separator, or one that turns the direction of what follows: what can
  /// drive a terminal or mislead the eye (Unicode TR36 §3.1).
  fileprivate var isInvisible: Bool {
    switch value {
    case 0..<0x20, 0x7F..<0xA0, 0x200B...0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF: true
    default: false
    }
  }
}
