import Bytes

/// A point in time as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110 §5.6.7).
public struct HTTPDate: Sendable, Equatable {
  /// Seconds since 1970-01-01 00:00:00 UTC, leap seconds not counted, up to the last one of the year 9999.
  public let secondsSinceEpoch: Int

  /// Takes seconds since the epoch. What the format cannot express becomes the nearest that it can, and what is before
  /// the epoch becomes the epoch.
  public init(secondsSinceEpoch: Int) {
    self.secondsSinceEpoch = min(max(secondsSinceEpoch, 0), 253_402_300_799)
  }

  /// Appends the 29 bytes of the date.
  public func append(to output: inout [UInt8]) {
    let (days, time) = secondsSinceEpoch.quotientAndRemainder(dividingBy: 86400)
    let (year, month, day) = Self.civil(daysSinceEpoch: days)
    // The epoch was a Thursday.
    output.appendName((days + 4) % 7, of: "SunMonTueWedThuFriSat")
    output.append(", ")
    output.append(decimal: day, width: 2)
    output.append(.space)
    output.appendName(month - 1, of: "JanFebMarAprMayJunJulAugSepOctNovDec")
    output.append(.space)
    output.append(decimal: year, width: 4)
    output.append(.space)
    output.append(decimal: time / 3600, width: 2)
    output.append(.colon)
    output.append(decimal: time / 60 % 60, width: 2)
    output.append(.colon)
    output.append(decimal: time % 60, width: 2)
    output.append(" GMT")
  }

  /// The date in the Gregorian calendar. Counts in eras of 400 years that begin on 1 March, so that the leap day is a
  /// year's last (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
  private static func civil(daysSinceEpoch: Int) -> (year: Int, month: Int, day: Int) {
    let shifted = daysSinceEpoch + 719_468
    let (era, dayOfEra) = shifted.quotientAndRemainder(dividingBy: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
    let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    return (era * 400 + yearOfEra + (month <= 2 ? 1 : 0), month, day)
  }
}

extension [UInt8] {
  /// Appends the three-letter name at `index` of a string of such names.
  fileprivate mutating func appendName(_ index: Int, of names: StaticString) {
    // Safe: a weekday is below 7 and a month below 12, so the three letters lie within the literal.
    unsafe append(contentsOf: UnsafeBufferPointer(start: names.utf8Start + index * 3, count: 3))
  }
}
