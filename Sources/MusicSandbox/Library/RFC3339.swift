import Bytes

/// Times as Apple's resources have them (RFC 3339 §5.6).
enum RFC3339 {
  /// A time in seconds since 1970, as in `2026-01-31T12:00:00Z`.
  static func text(_ seconds: Int) -> String {
    let (days, time) = max(seconds, 0).quotientAndRemainder(dividingBy: 86_400)
    let date = CivilDate(daysSinceEpoch: days)
    var text: [UInt8] = []
    text.append(decimal: date.year, width: 4)
    for (mark, number) in [
      ("-", date.month), ("-", date.day), ("T", time / 3600), (":", time / 60 % 60), (":", time % 60),
    ] {
      text.append(contentsOf: mark.utf8)
      text.append(decimal: number, width: 2)
    }
    text.append("Z")
    return String(decoding: text, as: UTF8.self)
  }
}
