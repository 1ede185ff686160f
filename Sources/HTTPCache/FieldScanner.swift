import Bytes
package import HTTP1

/// A position in a field value during parsing from left to right (RFC 9110 §5.6). The caller passes the value to each
/// call, so nothing is copied.
package struct FieldScanner {
  private(set) var index = 0

  package init() {}

  package func isAtEnd(in bytes: Span<UInt8>) -> Bool { index >= bytes.count }

  package mutating func skipWhitespace(in bytes: Span<UInt8>) {
    while index < bytes.count, bytes[index].isWhitespace { index += 1 }
  }

  /// Consumes `byte` if it is next.
  mutating func take(_ byte: Unicode.Scalar, in bytes: Span<UInt8>) -> Bool {
    guard index < bytes.count, bytes[index] == UInt8(ascii: byte) else { return false }
    index += 1
    return true
  }

  /// Consumes a token (RFC 9110 §5.6.2). The range is empty if no token follows.
  package mutating func token(in bytes: Span<UInt8>) -> Range<Int> {
    let start = index
    while index < bytes.count, ByteSet.token.contains(bytes[index]) { index += 1 }
    return start..<index
  }

  /// Consumes a quoted string (RFC 9110 §5.6.4) that starts here. Returns the range between the quotes, with quoted
  /// pairs unchanged, or nil if the string has no end.
  mutating func quotedString(in bytes: Span<UInt8>) -> Range<Int>? {
    index += 1
    let start = index
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "\""):
        index += 1
        return start..<index - 1
      case UInt8(ascii: "\\"):
        index += 2
      default:
        index += 1
      }
    }
    index = bytes.count
    return nil
  }

  /// The kind of text between an element and the next separator.
  package enum SkippedText {
    case nothing, garbage, unterminatedString
  }

  /// Skips all text to the next `separator` outside of quoted strings, and the separator.
  package mutating func skip(past separator: Unicode.Scalar, in bytes: Span<UInt8>) -> SkippedText {
    skipWhitespace(in: bytes)
    var remainder = SkippedText.nothing
    while index < bytes.count {
      if take(separator, in: bytes) { return remainder }
      remainder = .garbage
      if bytes[index] != UInt8(ascii: "\"") {
        index += 1
      } else if quotedString(in: bytes) == nil {
        return .unterminatedString
      }
    }
    return remainder
  }
}

/// One element of `Cache-Control` (RFC 9111 §5.2), as ranges of the field value.
struct CacheDirective: Equatable {
  /// The part after `=`.
  enum Argument: Equatable {
    /// There is no `=`.
    case absent
    /// A token, or the text inside a quoted string: recipients must accept both forms for any argument.
    case present(Range<Int>)
    case malformed
    /// A quoted string without an end. It may contain other elements.
    case unterminated
  }

  /// The name. Empty if the name is missing.
  let name: Range<Int>
  let argument: Argument

  /// Returns the argument in seconds, or nil if it is not delta-seconds.
  func seconds(in bytes: Span<UInt8>) -> Int? {
    guard case .present(let range) = argument else { return nil }
    return FieldText.deltaSeconds(range, of: bytes)
  }
}

extension FieldScanner {
  /// Returns the next element that is not empty, or nil at the end. Invalid text makes only its own element malformed,
  /// whose name still counts, because every such directive only makes the cache more careful.
  mutating func directive(in bytes: Span<UInt8>) -> CacheDirective? {
    while true {
      skipWhitespace(in: bytes)
      if isAtEnd(in: bytes) { return nil }
      if !take(",", in: bytes) { break }
    }
    let name = token(in: bytes)
    var argument = CacheDirective.Argument.absent
    if take("=", in: bytes) { argument = self.argument(in: bytes) }
    switch skip(past: ",", in: bytes) {
    case .nothing: break
    case .garbage: if argument != .unterminated { argument = .malformed }
    case .unterminatedString: argument = .unterminated
    }
    return CacheDirective(name: name, argument: argument)
  }

  private mutating func argument(in bytes: Span<UInt8>) -> CacheDirective.Argument {
    if !isAtEnd(in: bytes), bytes[index] == UInt8(ascii: "\"") {
      return quotedString(in: bytes).map { .present($0) } ?? .unterminated
    }
    let value = token(in: bytes)
    return value.isEmpty ? .malformed : .present(value)
  }

  /// Consumes an entity tag, or nil. Unlike in a quoted string, a backslash has no special meaning.
  mutating func entityTag(in bytes: Span<UInt8>) -> (isWeak: Bool, opaque: Range<Int>)? {
    var isWeak = false
    if take("W", in: bytes) {
      guard take("/", in: bytes) else { return nil }
      isWeak = true
    }
    guard take("\"", in: bytes) else { return nil }
    let start = index
    while !isAtEnd(in: bytes), bytes[index] > 0x20, bytes[index] != 0x7f, bytes[index] != UInt8(ascii: "\"") {
      index += 1
    }
    let opaque = start..<index
    return take("\"", in: bytes) ? (isWeak, opaque) : nil
  }
}

/// Delta-seconds (RFC 9111 §1.2.2).
enum FieldText {
  /// Returns the number of seconds in `range`, which must contain only digits. A larger value becomes 2³¹, which is 68
  /// years, as the RFC requires. Returns nil otherwise.
  static func deltaSeconds(_ range: Range<Int>, of bytes: Span<UInt8>) -> Int? {
    guard !range.isEmpty else { return nil }
    var seconds = 0
    for index in range {
      guard let digit = bytes[index].decimalDigit else { return nil }
      seconds = min(seconds * 10 + Int(digit), mostSeconds)
    }
    return seconds
  }

  /// The greatest number of seconds, so that sums of a few numbers cannot overflow.
  static let mostSeconds = 1 << 31
}

/// A parser of the three forms of HTTP-date that recipients must accept (RFC 9110 §5.6.7).
package enum FieldDate {
  /// Returns the date in a field that may occur at most once, whose name is in lower case. Nil without a valid one.
  package static func seconds(ofOnly name: StaticString, in fields: FieldLines, now: Int) -> Int? {
    guard case .single(let range) = fields.value(of: name) else { return nil }
    return seconds(fields.bytes.span.extracting(range), now: now)
  }

  /// Returns seconds since the epoch, or nil if the text is not a date. The present serves to interpret two-digit years.
  package static func seconds(_ text: String, now: Int) -> Int? { text.withUTF8Bytes { seconds($0, now: now) } }

  /// Returns the same for the bytes of the text. Allocates nothing, because every response has such a field.
  package static func seconds(_ bytes: Span<UInt8>, now: Int) -> Int? {
    let comma = (3...9).first { $0 < bytes.count && bytes[$0] == UInt8(ascii: ",") }
    guard let comma else {
      // Sun Nov  6 08:49:37 1994
      guard bytes.count == 24, has(" ", at: 3, bytes), has(" ", at: 7, bytes), has(" ", at: 10, bytes),
        has(" ", at: 19, bytes)
      else { return nil }
      // A space stands in place of the day's first digit.
      let day = number(bytes[8] == UInt8(ascii: " ") ? 9..<10 : 8..<10, bytes)
      return seconds(day: day, month: 4, year: number(20..<24, bytes), time: 11, bytes)
    }
    // Sun, 06 Nov 1994 08:49:37 GMT, or Sunday, 06-Nov-94 08:49:37 GMT, whose longest day name is `Wednesday`.
    let isShort = bytes.count == comma + 24
    let (mark, end): (StaticString, Int) = isShort ? ("-", comma + 11) : (" ", comma + 13)
    guard isShort || comma == 3 && bytes.count == 29, has(", ", at: comma, bytes), has(mark, at: comma + 4, bytes),
      has(mark, at: comma + 8, bytes), has(" ", at: end, bytes), has(" GMT", at: end + 9, bytes)
    else { return nil }
    let (day, year) = (number(comma + 2..<comma + 4, bytes), number(comma + 9..<end, bytes))
    return seconds(day: day, month: comma + 5, year: isShort ? century(year, now: now) : year, time: end + 1, bytes)
  }

  @inline(__always)
  private static func has(_ literal: StaticString, at start: Int, _ bytes: Span<UInt8>) -> Bool {
    bytes.equals(start..<start + literal.utf8CodeUnitCount, literal)
  }

  /// `month` and `time` are the positions of the month name and of `08:49:37`.
  private static func seconds(day: Int?, month: Int, year: Int?, time: Int, _ bytes: Span<UInt8>) -> Int? {
    guard let day, let year, let month = self.month(at: month, bytes), (1...31).contains(day),
      has(":", at: time + 2, bytes), has(":", at: time + 5, bytes),
      let hour = number(time..<time + 2, bytes), let minute = number(time + 3..<time + 5, bytes),
      let second = number(time + 6..<time + 8, bytes), hour < 24, minute < 60, second <= 60
    else { return nil }
    return CivilDate.daysSinceEpoch(year: year, month: month, day: day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  @inline(__always)
  private static func number(_ range: Range<Int>, _ bytes: Span<UInt8>) -> Int? {
    var number = 0
    for index in range {
      guard let digit = bytes[index].decimalDigit else { return nil }
      number = number &* 10 &+ Int(digit)
    }
    return number
  }

  private static func month(at start: Int, _ bytes: Span<UInt8>) -> Int? {
    let names: StaticString = "JanFebMarAprMayJunJulAugSepOctNovDec"
    return (0..<12).first { month in
      // Safe: twelve names of three letters.
      (0..<3).allSatisfy { unsafe bytes[start + $0] == names.utf8Start[3 * month + $0] }
    }.map { $0 + 1 }
  }

  /// Expands a two-digit year. A year more than 50 years ahead means the previous century (RFC 9110 §5.6.7).
  private static func century(_ year: Int?, now: Int) -> Int? {
    guard let year else { return nil }
    let present = 1970 + now / 31_556_952
    let candidate = present - present % 100 + year
    return candidate > present + 50 ? candidate - 100 : candidate
  }
}
