/// A date in the proleptic Gregorian calendar.
public struct CivilDate: Sendable, Equatable {
  /// The year. Year 0 is 1 BC.
  public let year: Int
  /// The month, 1 to 12.
  public let month: Int
  /// The day of the month, 1 to 31.
  public let day: Int

  /// Creates the date of a day since 1970-01-01, or before. Eras of 400 years begin on 1 March, so that the leap day is
  /// the last of a year (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
  public init(daysSinceEpoch: Int) {
    let shifted = daysSinceEpoch + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
  }
  /// Returns the days from 1970-01-01 to a date of the years 0 to 9999 (`days_from_civil`).
  public static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
    // Years start on 1 March. One more era keeps all numbers positive.
    let year = year + 400 - (month <= 2 ? 1 : 0)
    let (era, yearOfEra) = year.quotientAndRemainder(dividingBy: 400)
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return (era - 1) * 146_097 + dayOfEra - 719_468
  }
}

/// A time in UTC in whole seconds, with the text form of RFC 3339 (§5.6): `2026-01-31T12:00:00Z`.
public struct CivilTime: Sendable, Equatable, CustomStringConvertible {
  /// The seconds since 1970, at least 0.
  public let secondsSinceEpoch: Int

  /// Creates the time. A time before 1970 becomes 1970.
  public init(secondsSinceEpoch: Int) { self.secondsSinceEpoch = max(secondsSinceEpoch, 0) }

  /// Parses the text form. Returns nil for any other text, an offset other than `Z`, and times before 1970.
  public init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard bytes.count == 20 else { return nil }
    func number(_ range: Range<Int>) -> Int { bytes[range].reduce(0) { $0 * 10 + Int($1 & 0x0F) } }
    let days = CivilDate.daysSinceEpoch(year: number(0..<4), month: number(5..<7), day: number(8..<10))
    let ofDay = number(11..<13) * 3600 + number(14..<16) * 60 + number(17..<19)
    let time = CivilTime(secondsSinceEpoch: days * 86_400 + ofDay)
    // Only the text of a real time comes out as it went in.
    guard time.description == text else { return nil }
    self = time
  }

  /// The text form.
  public var description: String {
    let (days, time) = secondsSinceEpoch.quotientAndRemainder(dividingBy: 86_400)
    let date = CivilDate(daysSinceEpoch: days)
    var text: [UInt8] = []
    text.append(decimal: date.year, width: 4)
    let parts = [("-", date.month), ("-", date.day), ("T", time / 3600), (":", time / 60 % 60), (":", time % 60)]
    for (mark, number) in parts {
      text.append(contentsOf: mark.utf8)
      text.append(decimal: number, width: 2)
    }
    text.append("Z")
    return String(decoding: text, as: UTF8.self)
  }
}
