/// Classes of bytes in a URI (RFC 3986).
extension UInt8 {
  /// `unreserved` (RFC 3986 §2.3): a character that means the same percent-encoded and plain.
  var isUnreserved: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
      UInt8(ascii: "~"):
      true
    default: false
    }
  }

  /// What may stand in a query as it is: `pchar`, `/` and `?` (RFC 3986 §3.4), and ``[ ] \ ^ ` { | }``, which browsers
  /// send unencoded there (WHATWG URL, query percent-encode set). The percent sign is judged apart.
  var isAllowedInQuery: Bool {
    switch self {
    case UInt8(ascii: "\""), UInt8(ascii: "#"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "%"): false
    default: self > 0x20 && self < 0x7F
    }
  }

  /// One of ``[ ] \ ^ ` { | }``: no URI may hold it plain (RFC 3986 §2), so that it means the same as its escape.
  var isOutsideOfURI: Bool {
    switch self {
    case UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "\\"), UInt8(ascii: "^"), UInt8(ascii: "`"),
      UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
      true
    default: false
    }
  }

  /// A control character, a space or DEL.
  var isControlOrSpace: Bool { self <= 0x20 || self == 0x7F }

  /// The value of a hexadecimal digit of either case; nil for anything else.
  var hexadecimalValue: UInt8? {
    switch self {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

extension Span<UInt8> {
  /// The byte that the percent sign at `index` and two digits stand for (RFC 3986 §2.1); nil if it is no escape.
  func escape(at index: Int) -> UInt8? {
    guard index + 2 < count, let high = self[index + 1].hexadecimalValue, let low = self[index + 2].hexadecimalValue
    else { return nil }
    return high << 4 | low
  }
}
