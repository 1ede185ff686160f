/// Reads the three forms of HTTP-date that recipients have to know (RFC 9110 §5.6.7).
enum FieldDate {
  /// Seconds since the epoch; nil for what is no date. Day names are not checked against the date.
  ///
  /// - Parameter now: The present in seconds since the epoch: two-digit years are read by it.
  static func seconds(_ text: String, now: Int) -> Int? {
    // Longest is `Wednesday, 09-Nov-94 08:49:37 GMT`.
    guard (24...33).contains(text.utf8.count) else { return nil }
    let parts = text.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false).map { Array($0) }
    switch parts.count {
    case 6 where parts[0].count == 4 && parts[0][3] == UInt8(ascii: ",") && parts[5] == Array("GMT".utf8):
      return seconds(day: parts[1], month: parts[2], year: number(parts[3], digits: 4), time: parts[4])
    case 4 where parts[0].last == UInt8(ascii: ",") && parts[3] == Array("GMT".utf8):
      let date = parts[1].split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false).map { Array($0) }
      guard date.count == 3 else { return nil }
      return seconds(day: date[0], month: date[1], year: century(number(date[2], digits: 2), now: now), time: parts[2])
    case 5:
      return seconds(day: parts[2], month: parts[1], year: number(parts[4], digits: 4), time: parts[3])
    case 6 where parts[2].isEmpty && parts[3].count == 1:
      // asctime has a space in place of the day's first digit.
      let day = [UInt8(ascii: "0")] + parts[3]
      return seconds(day: day, month: parts[1], year: number(parts[5], digits: 4), time: parts[4])
    default: return nil
    }
  }

  private static func seconds(day: [UInt8], month: [UInt8], year: Int?, time: [UInt8]) -> Int? {
    guard let day = number(day, digits: 2), let year, let month = self.month(month), time.count == 8,
      (1...31).contains(day), time[2] == UInt8(ascii: ":"), time[5] == UInt8(ascii: ":"),
      let hour = number(Array(time[0..<2]), digits: 2), let minute = number(Array(time[3..<5]), digits: 2),
      let second = number(Array(time[6..<8]), digits: 2), hour < 24, minute < 60, second <= 60
    else { return nil }
    return daysSinceEpoch(year: year, month: month, day: day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  private static func number(_ text: [UInt8], digits: Int) -> Int? {
    guard text.count == digits else { return nil }
    return FieldText.deltaSeconds(0..<digits, of: text.span)
  }

  private static func month(_ name: [UInt8]) -> Int? {
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
      .firstIndex { $0.utf8.elementsEqual(name) }.map { $0 + 1 }
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
