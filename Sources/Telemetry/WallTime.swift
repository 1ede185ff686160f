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
  /// `time` as RFC 3339 has it: `2026-01-31T23:59:59.999Z`. A year beyond 9999, which it has not, comes out wrong.
  mutating func append(_ time: WallTime) {
    let date = time.date
    let ofDay = Int(time.millisecondOfDay)
    // In one go: every line has one.
    append(addingCapacity: 24) { (output: inout OutputSpan<UInt8>) in
      output.append(date.year, digits: 4, then: "-")
      output.append(date.month, digits: 2, then: "-")
      output.append(date.day, digits: 2, then: "T")
      output.append(ofDay / 3_600_000, digits: 2, then: ":")
      output.append(ofDay / 60_000 % 60, digits: 2, then: ":")
      output.append(ofDay / 1000 % 60, digits: 2, then: ".")
      output.append(ofDay % 1000, digits: 3, then: "Z")
    }
  }
}

extension OutputSpan<UInt8> {
  /// The last `digits` decimal digits of `number`, at most four, and a character.
  fileprivate mutating func append(_ number: Int, digits: Int, then mark: Unicode.Scalar) {
    var divisor = digits == 4 ? 1000 : digits == 3 ? 100 : 10
    while divisor > 0 {
      append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / divisor % 10))
      divisor /= 10
    }
    append(UInt8(ascii: mark))
  }
}
