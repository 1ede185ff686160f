import Bytes

extension Span<UInt8> {
  /// Returns the index of the first control character (HTAB included) from `start` on, or `count`.
  @inline(__always)
  func firstControl(from start: Int) -> Int {
    var index = firstMark(from: start, to: count) { $0.marksOfControls | $0.marks(of: 0x7f) }
    while index < count, !self[index].isControl { index &+= 1 }
    return index
  }

  /// Returns the index of the first byte from `start` on that field values and reason phrases must not contain, or
  /// `count`. Such bytes are the control characters except HTAB (RFC 9110 §5.5, RFC 9112 §4).
  @inline(__always)
  func endOfText(from start: Int) -> Int {
    var index = firstControl(from: start)
    while index < count, self[index] == .horizontalTab { index = firstControl(from: index &+ 1) }
    return index
  }

  /// Returns the index of the first byte from `start` on that no token contains (RFC 9110 §5.6.2), `end` at most.
  /// It tests eight bytes at a time as long as they are letters and hyphens, as in nearly all field names.
  @inline(__always)
  func endOfToken(from start: Int, to end: Int) -> Int {
    var index = firstMark(from: start, to: end) { word in
      // Without their top bits, the sums do not carry into the next byte: 0x1f takes `a` to 0x80, and 5 takes `{`.
      let lower = (word | .ones &* 0x20) & ~.tops
      let letters = (lower &+ .ones &* 0x1f) & ~(lower &+ .ones &* 5) & ~word
      let others = word ^ (.ones &* 0x2d)
      let hyphens = ~(((others & ~.tops) &+ ~.tops) | others)
      return ~(letters | hyphens)
    }
    while index < end, ByteSet.token.contains(self[index]) { index &+= 1 }
    return index
  }

  /// Returns the index of the first byte in `range` that equals `byte`, or nil if `range` does not contain it.
  package func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
    var index = firstMark(from: range.lowerBound, to: range.upperBound) { $0.marks(of: byte) }
    while index < range.upperBound {
      if self[index] == byte { return index }
      index &+= 1
    }
    return nil
  }

  /// Returns whether the bytes in `range` are a token (RFC 9110 §5.6.2).
  func isToken(_ range: Range<Int>) -> Bool {
    !range.isEmpty && endOfToken(from: range.lowerBound, to: range.upperBound) == range.upperBound
  }

  /// Returns whether an LF follows the CR at `index`, or false if the next byte has not arrived.
  func hasLineFeed(after index: Int) throws(RequestError) -> Bool {
    guard index &+ 1 < count else { return false }
    guard self[index &+ 1] == .lineFeed else { throw .bareCarriageReturn }
    return true
  }

  /// Returns the non-negative decimal number in `range`, one to 19 digits within `Int`. Returns nil otherwise.
  func decimal(in range: Range<Int>) -> Int? {
    guard 1...19 ~= range.count else { return nil }
    var value: Int = 0
    for index in range {
      guard let digit = self[index].decimalDigit else { return nil }
      let (tens, tensOverflow) = value.multipliedReportingOverflow(by: 10)
      let (sum, sumOverflow) = tens.addingReportingOverflow(Int(digit))
      guard !tensOverflow, !sumOverflow else { return nil }
      value = sum
    }
    return value
  }

  /// Returns the bytes in `range` as a string. Invalid UTF-8 becomes U+FFFD.
  public func string(in range: Range<Int>) -> String {
    unsafe extracting(range).withUnsafeBufferPointer { buffer in
      // Safe: only this closure reads `buffer`.
      unsafe String(decoding: buffer, as: UTF8.self)
    }
  }
}

extension Span<UInt8> {
  /// Returns a weight (RFC 9110 §12.4.2) in thousandths: 500 for `0.5`. A malformed one is 0, "not acceptable".
  public func qualityValue(in range: Range<Int>) -> Int {
    guard (1...5).contains(range.count), range.count == 1 || self[range.lowerBound + 1] == UInt8(ascii: ".") else {
      return 0
    }
    var weight = 0
    var place = 1000
    for index in range where index != range.lowerBound + 1 {
      guard let digit = self[index].decimalDigit else { return 0 }
      weight += Int(digit) * place
      place /= 10
    }
    return weight <= 1000 ? weight : 0
  }
}

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
  static var colon: UInt8 { 0x3a }
  static var semicolon: UInt8 { 0x3b }
  static var equalsSign: UInt8 { 0x3d }
  static var questionMark: UInt8 { 0x3f }
  static var leftBracket: UInt8 { 0x5b }
  static var backslash: UInt8 { 0x5c }
  static var rightBracket: UInt8 { 0x5d }
}

/// A set of ASCII characters as two masks in registers. A test compares them with what the grammars list.
package struct ByteSet: Sendable {
  /// Bit *n* represents the character *n*.
  let low: UInt64
  /// Bit *n* represents the character 64 + *n*.
  let high: UInt64

  /// Returns whether the set contains `byte`. It contains no byte of 0x80 or more.
  @inline(__always)
  package func contains(_ byte: UInt8) -> Bool {
    let half = byte < 64 ? low : (byte < 128 ? high : 0)
    return half &>> UInt64(byte & 63) & 1 != 0
  }

  /// `tchar`, RFC 9110 §5.6.2.
  package static var token: Self { Self(low: 0x03ff_6cfa_0000_0000, high: 0x57ff_ffff_c7ff_fffe) }

  /// The ASCII characters of a path: `pchar` and `/` (RFC 3986 §3.3), `[ ] ^ |`, which browsers send unencoded (WHATWG
  /// URL), and `" < >`, which only scripts do. Not `\`, because some programs read it as `/`.
  static var path: Self { Self(low: 0x7fff_fff6_0000_0000, high: 0x57ff_fffe_efff_ffff) }

  /// The ASCII characters of a query: `pchar`, `/` and `?` (RFC 3986 §3.4), ``[ ] \ ^ ` { | }``, which browsers send
  /// unencoded (WHATWG URL, query percent-encode set), and `" < >`, which only scripts send unencoded.
  static var query: Self { Self(low: 0xffff_fff6_0000_0000, high: 0x7fff_ffff_ffff_ffff) }

  /// `reg-name` (RFC 3986 §3.2.2) without the comma, because a host with a comma comes from two joined Host fields.
  static var registeredName: Self { Self(low: 0x2bff_6ff2_0000_0000, high: 0x47ff_fffe_87ff_fffe) }
}
