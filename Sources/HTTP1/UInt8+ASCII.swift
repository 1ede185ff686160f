extension UInt8 {
  static var horizontalTab: UInt8 { 0x09 }
  static var lineFeed: UInt8 { 0x0a }
  static var carriageReturn: UInt8 { 0x0d }
  static var space: UInt8 { 0x20 }
  static var doubleQuote: UInt8 { 0x22 }
  static var numberSign: UInt8 { 0x23 }
  static var percentSign: UInt8 { 0x25 }
  static var asterisk: UInt8 { 0x2a }
  static var comma: UInt8 { 0x2c }
  static var period: UInt8 { 0x2e }
  static var slash: UInt8 { 0x2f }
  static var zero: UInt8 { 0x30 }
  static var colon: UInt8 { 0x3a }
  static var semicolon: UInt8 { 0x3b }
  static var equalsSign: UInt8 { 0x3d }
  static var questionMark: UInt8 { 0x3f }
  static var leftBracket: UInt8 { 0x5b }
  static var backslash: UInt8 { 0x5c }
  static var rightBracket: UInt8 { 0x5d }

  /// SP or HTAB: what OWS is made of (RFC 9110 §5.6.3).
  @inline(__always)
  var isWhitespace: Bool { self == .space || self == .horizontalTab }

  /// A control character, HTAB among them: 0x00–0x1F and DEL.
  @inline(__always)
  var isControl: Bool { self < 0x20 || self == 0x7f }

  /// The value of a decimal digit, nil for anything else.
  @inline(__always)
  var decimalDigit: UInt8? {
    let value = self &- .zero
    return value < 10 ? value : nil
  }

  /// The value of a hexadecimal digit of either case, nil for anything else.
  @inline(__always)
  var hexadecimalDigit: UInt8? {
    if let decimalDigit { return decimalDigit }
    let letter = (self | 0x20) &- 0x61
    return letter < 6 ? letter &+ 10 : nil
  }

  /// `A`–`Z` in lower case, everything else as it is.
  @inline(__always)
  var lowercased: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }
}
