import JSON

/// A time in a JWT (RFC 7519 §2): a JSON number of seconds since 1970, which may have a fraction.
struct NumericDate {
  /// Longest number that is looked at, in characters.
  private static let textLimit = 32
  /// From 1970 to the last second of the year 9999: what is beyond is milliseconds, or an attempt at overflow.
  private static let range = 0.0...253_402_300_799.0

  private let seconds: Double

  /// Nil for anything but a number in that range.
  init?(_ value: JSONValue) {
    guard case .number(let text) = value, text.utf8.count <= Self.textLimit, let seconds = Double(text),
      Self.range.contains(seconds)
    else { return nil }
    self.seconds = seconds
  }

  /// The whole second that it lies in.
  var floor: Int { Int(seconds.rounded(.down)) }

  /// The whole second from which on it has passed.
  var ceiling: Int { Int(seconds.rounded(.up)) }
}
