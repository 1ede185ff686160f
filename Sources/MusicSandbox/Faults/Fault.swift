import JSON
import MusicCatalog

/// A fault that a test or an option requests.
public enum Fault: Sendable, Equatable {
  /// `delay=2s`: a delay before the response.
  case delay(Duration)
  /// `status=503`: an error with this status, in Apple's shape.
  case status(Int)
  /// `empty-401`: Apple's response to a refused token.
  case unauthorized
  /// `rate-limit`: Apple's response above its rate.
  case rateLimited
  /// `redirect` or `redirect=URL`: 301 to that URL.
  case redirect(String)
  /// `huge=N`: N bytes of JSON.
  case huge(Int)
  /// `slow=N`: N bytes of content in each tenth of a second.
  case slow(Int)
  /// `reset`: the response breaks off in the middle, after its full length was announced.
  case reset
  /// `truncate`: the response breaks off in the middle, without an announced length.
  case truncate
  /// `goaway`: the connection ends after the response.
  case goaway
  /// `set-cookie`: fields that a proxy must not forward, such as cookies, CORS, authentication and tracing.
  case foreignFields
  /// `library-changes`: the user can change and delete playlists, which Apple refuses.
  case libraryChanges

  /// The maximum delay, so that a typing error does not hold connections forever.
  public static let maximumDelay = Duration.seconds(600)
  /// The maximum content in bytes.
  public static let maximumContent = 1 << 30

  /// Parses faults separated by commas, as in `delay=2s,status=503`. Returns nil if any part is not a fault.
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
    case ("library-changes", nil): .libraryChanges
    default: nil
    }
  }

  /// Returns the milliseconds of `2s` or `250ms`.
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

extension Fault {
  /// Returns the response that replaces the real one; nil if this fault keeps it.
  ///
  /// - Parameter id: The identifier of an error object.
  func replacement(id: String) -> SandboxResponse? {
    switch self {
    case .status(let status): AppleError.serverFault(status).respond(id: id)
    case .unauthorized: .unauthorized
    case .rateLimited: .rateLimited
    case .redirect(let location): SandboxResponse(301, fields: [SandboxField("Location", location)])
    case .huge(let count): Self.filled(count)
    default: nil
    }
  }

  private static func filled(_ count: Int) -> SandboxResponse {
    var response = SandboxResponse(200, fields: [SandboxField("Content-Type", "application/json;charset=utf-8")])
    response.delivery.filling = count
    return response
  }

  /// Applies this fault to a response, whether it is the real one or a replacement.
  func apply(to response: inout SandboxResponse) {
    switch self {
    case .delay(let duration): response.delivery.delay = duration
    case .slow(let pace): response.delivery.pace = pace
    case .reset: response.delivery.ending = .reset
    case .truncate: response.delivery.ending = .truncated
    case .goaway: response.delivery.closesConnection = true
    case .foreignFields: response.fields += Self.foreign
    case .status, .unauthorized, .rateLimited, .redirect, .huge, .libraryChanges: break
    }
  }

  private static let foreign = [
    SandboxField("Set-Cookie", "sandbox=1; Path=/; Secure; HttpOnly"), SandboxField("Set-Cookie", "itspod=2; Path=/"),
    SandboxField("Access-Control-Allow-Credentials", "true"),
    SandboxField("Access-Control-Expose-Headers", "Music-User-Token"), SandboxField("WWW-Authenticate", "Bearer"),
    SandboxField("Proxy-Authenticate", "Basic"), SandboxField("Strict-Transport-Security", "max-age=31536000"),
    SandboxField("Alt-Svc", "h3=\":443\""), SandboxField("Server", "sandbox"),
    SandboxField("X-Apple-Jingle-Correlation-Key", "SANDBOX"),
  ]
}

extension SandboxResponse {
  /// Apple's response to a refused developer token, which is empty.
  static let unauthorized = SandboxResponse(401)

  /// Apple's response above its rate. It is not in the documented form, and has no `Retry-After`.
  static let rateLimited = SandboxResponse.json(["message": "API capacity exceeded"], status: 429)
}

extension Fault: CustomStringConvertible {
  /// The fault as a request writes it.
  public var description: String {
    switch self {
    case .delay(let duration): "delay=\(Self.milliseconds(duration))ms"
    case .status(let status): "status=\(status)"
    case .unauthorized: "empty-401"
    case .rateLimited: "rate-limit"
    case .redirect(let location): "redirect=\(location)"
    case .huge(let count): "huge=\(count)"
    case .slow(let pace): "slow=\(pace)"
    case .reset: "reset"
    case .truncate: "truncate"
    case .goaway: "goaway"
    case .foreignFields: "set-cookie"
    case .libraryChanges: "library-changes"
    }
  }

  /// Returns the milliseconds. A parsed delay is at most ten minutes, in whole milliseconds.
  private static func milliseconds(_ duration: Duration) -> Int64 {
    let bounded = max(.zero, min(duration, maximumDelay)).components
    return bounded.seconds * 1000 + bounded.attoseconds / 1_000_000_000_000_000
  }
}

/// Faults for matching requests. They serve clients that cannot send a field or a parameter.
struct FaultRule: Sendable {
  let faults: [Fault]
  /// The prefix of the path.
  let path: String
  /// The text that the query must contain; nil for any query.
  let query: String?
  /// The number of further requests that can match; nil for no limit.
  var remaining: Int?
  /// The number of requests that have matched.
  var hits = 0

  func matches(_ request: SandboxRequest) -> Bool {
    remaining != 0 && request.path.hasPrefix(path) && (query.map { (request.query ?? "").contains($0) } ?? true)
  }

  var document: JSONValue {
    .object(of: [
      ("fault", .text(faults.map(\.description).joined(separator: ","))), ("path", .text(path)),
      ("query", query.map { .text($0) }),
      ("remaining", remaining.map { .whole($0) }), ("hits", .whole(hits)),
    ])
  }
}
