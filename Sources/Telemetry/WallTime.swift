import Bytes
import Glibc

/// A time of day in UTC, to the millisecond.
struct WallTime: Sendable, Equatable {
  /// Since 1970-01-01T00:00:00Z, leap seconds aside.
  let milliseconds: Int64

  /// The time now.
  static func now() -> WallTime {
    var time = timespec()
    // CLOCK_REALTIME always exists, so there is no failure to handle.
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return WallTime(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }

  /// Year, month and day in the proleptic Gregorian calendar.
  ///
  /// Howard Hinnant's `civil_from_days`: eras of 400 years that begin in March, so that the leap day comes last.
  var date: (year: Int, month: Int, day: Int) {
    let days = Int((milliseconds - millisecondOfDay) / 86_400_000) + 719_468
    let era = (days >= 0 ? days : days - 146_096) / 146_097
    let dayOfEra = days - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
  }

  /// Since midnight.
  var millisecondOfDay: Int64 {
    let remainder = milliseconds % 86_400_000
    return remainder < 0 ? remainder + 86_400_000 : remainder
  }
}

extension [UInt8] {
  /// `time` as RFC 3339 has it: `2026-01-31T23:59:59.999Z`.
  mutating func append(_ time: WallTime) {
    let (year, month, day) = time.date
    let ofDay = Int(time.millisecondOfDay)
    append(decimal: year, width: 4)
    append(UInt8(ascii: "-"))
    append(decimal: month, width: 2)
    append(UInt8(ascii: "-"))
    append(decimal: day, width: 2)
    append(UInt8(ascii: "T"))
    append(decimal: ofDay / 3_600_000, width: 2)
    append(UInt8(ascii: ":"))
    append(decimal: ofDay / 60_000 % 60, width: 2)
    append(UInt8(ascii: ":"))
    append(decimal: ofDay / 1000 % 60, width: 2)
    append(UInt8(ascii: "."))
    append(decimal: ofDay % 1000, width: 3)
    append(UInt8(ascii: "Z"))
  }
}
