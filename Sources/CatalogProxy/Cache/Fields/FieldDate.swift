/// Reads the three forms of HTTP-date that recipients have to know (RFC 9110 §5.6.7).
enum FieldDate {
  /// Seconds since the epoch; nil for what is no date. Day names are not checked against the date.
  ///
  /// - Parameter now: The present in seconds since the epoch: two-digit years are read by it.
  static func seconds(_ text: String, now: Int) -> Int? {
    var text = text
    return text.withUTF8 { buffer in
      // Safe: the span does not leave the closure that lends the bytes.
      seconds(unsafe Span(_unsafeElements: buffer), now: now)
    }
  }

  /// Where things stand is all that tells the forms apart; nothing is allocated, since every answer has such a field.
  private static func seconds(_ bytes: Span<UInt8>, now: Int) -> Int? {
    if matches("???, 00 ??? 0000 00:00:00 GMT", bytes, from: 0) {
      return seconds(day: number(5..<7, bytes), month: 8, year: number(12..<16, bytes), time: 17, bytes)
    }
    if matches("??? ??? ?0 00:00:00 0000", bytes, from: 0) {
      // A space stands in place of the day's first digit.
      let day = number(bytes[8] == UInt8(ascii: " ") ? 9..<10 : 8..<10, bytes)
      return seconds(day: day, month: 4, year: number(20..<24, bytes), time: 11, bytes)
    }
    // Behind the day's whole name, `Wednesday` the longest.
    let start = (3...9).first { $0 < bytes.count && bytes[$0] == UInt8(ascii: ",") }
    guard let start, matches(", 00-???-00 00:00:00 GMT", bytes, from: start) else { return nil }
    let year = century(number(start + 9..<start + 11, bytes), now: now)
    return seconds(day: number(start + 2..<start + 4, bytes), month: start + 5, year: year, time: start + 12, bytes)
  }

  /// Whether `bytes` from `start` to their end are like `pattern`, in which `0` is any digit and `?` anything.
  private static func matches(_ pattern: StaticString, _ bytes: Span<UInt8>, from start: Int) -> Bool {
    guard bytes.count == start + pattern.utf8CodeUnitCount else { return false }
    for offset in 0..<pattern.utf8CodeUnitCount {
      let byte = bytes[start + offset]
      // Safe: `offset` is below the literal's length.
      switch unsafe pattern.utf8Start[offset] {
      case UInt8(ascii: "?"): continue
      case UInt8(ascii: "0"): guard byte &- UInt8(ascii: "0") < 10 else { return false }
      case let expected: guard byte == expected else { return false }
      }
    }
    return true
  }

  /// - Parameters:
  ///   - month: Where its name begins.
  ///   - time: Where `08:49:37` begins.
  private static func seconds(day: Int?, month: Int, year: Int?, time: Int, _ bytes: Span<UInt8>) -> Int? {
    guard let day, let year, let month = self.month(at: month, bytes), (1...31).contains(day),
      let hour = number(time..<time + 2, bytes), let minute = number(time + 3..<time + 5, bytes),
      let second = number(time + 6..<time + 8, bytes), hour < 24, minute < 60, second <= 60
    else { return nil }
    return daysSinceEpoch(year: year, month: month, day: day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  private static func number(_ range: Range<Int>, _ bytes: Span<UInt8>) -> Int? {
    FieldText.deltaSeconds(range, of: bytes)
  }

  private static func month(at start: Int, _ bytes: Span<UInt8>) -> Int? {
    let names: StaticString = "JanFebMarAprMayJunJulAugSepOctNovDec"
    return (0..<12).first { month in
      // Safe: twelve names of three letters.
      (0..<3).allSatisfy { unsafe bytes[start + $0] == names.utf8Start[3 * month + $0] }
    }.map { $0 + 1 }
  }

  /// A year that appears to be more than 50 years ahead is the last one with those digits (RFC 9110 §5.6.7).
  private static func century(_ year: Int?, now: Int) -> Int? {
    guard let year else { return nil }
    let present = 1970 + now / 31_556_952
    let candidate = present - present % 100 + year
    return candidate > present + 50 ? candidate - 100 : candidate
  }

  /// Days from 1970-01-01, counted as ``Bytes/CivilDate`` counts them (Howard Hinnant, `days_from_civil`). Years 0 to
  /// 9999 only.
  private static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
    // From 1 March, and one era up, so that nothing is negative.
    let year = year + 400 - (month <= 2 ? 1 : 0)
    let (era, yearOfEra) = year.quotientAndRemainder(dividingBy: 400)
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return (era - 1) * 146_097 + dayOfEra - 719_468
  }
}
