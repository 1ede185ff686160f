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

  /// The day.
  var date: CivilDate { CivilDate(daysSinceEpoch: Int((milliseconds - millisecondOfDay) / 86_400_000)) }

  /// Since midnight.
  var millisecondOfDay: Int64 {
    let remainder = milliseconds % 86_400_000
    return remainder < 0 ? remainder + 86_400_000 : remainder
  }
}

extension [UInt8] {
  /// `time` as RFC 3339 has it: `2026-01-31T23:59:59.999Z`.
  mutating func append(_ time: WallTime) {
    let date = time.date
    let ofDay = Int(time.millisecondOfDay)
    append(decimal: date.year, width: 4)
    append(UInt8(ascii: "-"))
    append(decimal: date.month, width: 2)
    append(UInt8(ascii: "-"))
    append(decimal: date.day, width: 2)
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
