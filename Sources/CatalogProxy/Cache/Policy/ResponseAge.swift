import HTTPTypes

/// How old a response was when it came (RFC 9111 §4.2.3), in seconds.
struct ResponseAge: Equatable {
  /// When its origin made it, by the origin's clock; by ours, when it came, if the origin does not say (RFC 9110
  /// §6.6.1). Seconds since the epoch.
  let date: Int
  /// `corrected_initial_age`.
  let initial: Int

  init(_ fields: HTTPFields, requestedAt: CacheTime, receivedAt: CacheTime) {
    let dates = fields[values: .date]
    date = (dates.count == 1 ? FieldDate.seconds(dates[0], now: receivedAt.wall) : nil) ?? receivedAt.wall
    let apparent = max(receivedAt.wall - date, 0)
    let delay = receivedAt.seconds(since: requestedAt)
    initial = min(max(apparent, Self.age(fields) + delay), FieldText.mostSeconds)
  }

  /// The value of `Age`. Of a list the first member counts, and what is no number does not (RFC 9111 §5.1).
  private static func age(_ fields: HTTPFields) -> Int {
    guard let first = fields[values: .age].first else { return 0 }
    let bytes = Array(first.utf8)
    var scanner = FieldScanner()
    scanner.skipWhitespace(in: bytes.span)
    let number = scanner.token(in: bytes.span)
    return FieldText.deltaSeconds(number, of: bytes.span) ?? 0
  }
}
