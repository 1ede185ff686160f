/// Something that goes wrong because it was asked for.
public enum Fault: Sendable, Equatable {
  /// `delay=2s`: nothing happens for so long.
  case delay(Duration)
  /// `status=503`: an error with this status, in Apple's shape.
  case status(Int)
  /// `empty-401`: what Apple answers to a token that it refuses.
  case unauthorized
  /// `rate-limit`: what Apple answers over its rate.
  case rateLimited
  /// `redirect` or `redirect=URL`: 301 to there.
  case redirect(String)
  /// `huge=N`: so many bytes of JSON.
  case huge(Int)
  /// `slow=N`: so many bytes of content in each tenth of a second.
  case slow(Int)
  /// `reset`: the answer breaks off in its middle, after its whole length was announced.
  case reset
  /// `truncate`: the answer breaks off in its middle, and no length was announced.
  case truncate
  /// `goaway`: the connection ends behind the answer.
  case goaway
  /// `set-cookie`: fields that a proxy must not hand on: cookies, CORS, authentication, tracing.
  case foreignFields

  /// Longest delay, so that a slip of the pen does not hold connections for ever.
  public static let maximumDelay = Duration.seconds(600)
  /// Longest content, in bytes.
  public static let maximumContent = 1 << 30

  /// Reads faults that are separated by commas, as in `delay=2s,status=503`; nil if any part is not a fault.
  public static func parse(_ text: String) -> [Fault]? {
    var faults: [Fault] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let fault = one(halves[0], halves.count == 2 ? halves[1] : nil) else { return nil }
      faults.append(fault)
    }
    return faults
  }

  private static func one(_ name: Substring, _ value: Substring?) -> Fault? {
    switch (name, value) {
    case ("delay", let value?): milliseconds(value).map { .delay(.milliseconds($0)) }
    case ("status", let value?): number(value, 400...599).map { .status($0) }
    case ("empty-401", nil): .unauthorized
    case ("rate-limit", nil): .rateLimited
    case ("redirect", let value): .redirect(value.map(String.init) ?? "https://music.example/elsewhere")
    case ("huge", let value?): number(value, 1...maximumContent).map { .huge($0) }
    case ("slow", let value?): number(value, 1...maximumContent).map { .slow($0) }
    case ("reset", nil): .reset
    case ("truncate", nil): .truncate
    case ("goaway", nil): .goaway
    case ("set-cookie", nil): .foreignFields
    default: nil
    }
  }

  /// The milliseconds of `2s` or `250ms`.
  static func milliseconds(_ text: Substring) -> Int? {
    let isMilliseconds = text.hasSuffix("ms")
    guard isMilliseconds || text.hasSuffix("s") else { return nil }
    let digits = text.dropLast(isMilliseconds ? 2 : 1)
    guard let count = number(digits, 0...(isMilliseconds ? 600_000 : 600)) else { return nil }
    return isMilliseconds ? count : count * 1000
  }

  private static func number(_ text: Substring, _ range: ClosedRange<Int>) -> Int? {
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text), range.contains(number) else {
      return nil
    }
    return number
  }
}
