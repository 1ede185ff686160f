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
    let date = CivilDate(daysSinceEpoch: days)
    // The epoch was a Thursday.
    output.appendName((days + 4) % 7, of: "SunMonTueWedThuFriSat")
    output.append(", ")
    output.append(decimal: date.day, width: 2)
    output.append(.space)
    output.appendName(date.month - 1, of: "JanFebMarAprMayJunJulAugSepOctNovDec")
    output.append(.space)
    output.append(decimal: date.year, width: 4)
    output.append(.space)
    output.append(decimal: time / 3600, width: 2)
    output.append(.colon)
    output.append(decimal: time / 60 % 60, width: 2)
    output.append(.colon)
    output.append(decimal: time % 60, width: 2)
    output.append(" GMT")
  }
}

extension [UInt8] {
  /// Appends the three-letter name at `index` of a string of such names.
  fileprivate mutating func appendName(_ index: Int, of names: StaticString) {
    // Safe: a weekday is below 7 and a month below 12, so the three letters lie within the literal.
    unsafe append(contentsOf: UnsafeBufferPointer(start: names.utf8Start + index * 3, count: 3))
  }
}
