import HTTPMessages
import HTTPTypes
import JSON
import MusicCatalog

/// A fault that a test or an option requests, as it writes it: `status=503`.
public struct Fault: Sendable, Equatable, CustomStringConvertible {
  /// A kind of fault. Its raw value is its name in requests.
  public enum Kind: String, Sendable {
    /// `delay=2s`: a delay before the response.
    case delay
    /// `status=503`: an error with this status, in Apple's shape.
    case status
    /// Apple's response to a refused token.
    case unauthorized = "empty-401"
    /// Apple's response above its rate.
    case rateLimited = "rate-limit"
    /// `redirect` or `redirect=URL`: 301 to that URL.
    case redirect
    /// `huge=N`: N bytes of JSON.
    case huge
    /// `slow=N`: N bytes of content in each tenth of a second.
    case slow
    /// The response breaks off in the middle, after its full length was announced.
    case reset
    /// The response breaks off in the middle, without an announced length.
    case truncate
    /// The connection ends after the response.
    case goaway
    /// Fields that a proxy must not forward, such as cookies, CORS, authentication and tracing.
    case foreignFields = "set-cookie"
    /// The user can change and delete playlists, which Apple refuses.
    case libraryChanges = "library-changes"
  }

  /// The kind.
  public let kind: Kind
  /// The text after the equals sign.
  private let value: String?
  /// The status, the number of bytes, or the milliseconds of a delay; 0 for other faults.
  public let number: Int

  /// The maximum delay in milliseconds, so that a typing error does not hold connections forever.
  static let maximumDelay = 600_000
  /// The maximum content in bytes.
  static let maximumContent = 1 << 30

  /// Parses faults separated by commas, as in `delay=2s,status=503`. Returns nil if any part is not a fault.
  public static func parse(_ text: String) -> [Fault]? {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false)
    let faults = parts.compactMap(Fault.init)
    return faults.count == parts.count ? faults : nil
  }

  private init?(_ text: Substring) {
    let halves = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard let kind = Kind(rawValue: String(halves[0])) else { return nil }
    let value = halves.count == 2 ? halves[1] : nil
    let number: Int? =
      switch kind {
      case .delay: value.flatMap(Self.milliseconds)
      case .status: value?.number(in: 400...599)
      case .huge, .slow: value?.number(in: 1...Self.maximumContent)
      case .redirect: 0
      default: value == nil ? 0 : nil
      }
    guard let number else { return nil }
    (self.kind, self.value, self.number) = (kind, value.map(String.init), number)
  }

  /// Returns the milliseconds of `2s` or `250ms`.
  public static func milliseconds(_ text: Substring) -> Int? {
    if text.hasSuffix("ms") { return text.dropLast(2).number(in: 0...maximumDelay) }
    return text.hasSuffix("s") ? text.dropLast().number(in: 0...maximumDelay / 1000).map { $0 * 1000 } : nil
  }

  /// The fault as a request writes it.
  public var description: String { kind.rawValue + (value.map { "=\($0)" } ?? "") }

  /// Returns the response that replaces the real one; nil if this fault keeps it.
  ///
  /// - Parameter id: The identifier of an error object.
  func replacement(id: String) -> SandboxResponse? {
    switch kind {
    case .status: SandboxResponse(AppleError(status: number), id: id)
    case .unauthorized: .unauthorized
    case .rateLimited: .rateLimited
    case .redirect: SandboxResponse(301, fields: [.location: value ?? "https://music.example/elsewhere"])
    case .huge: SandboxResponse(200, fields: [.contentType: SandboxResponse.mediaType])
    default: nil
    }
  }

  /// The fields of `set-cookie`.
  static let foreign: HTTPFields = [
    .setCookie: "sandbox=1; Path=/; Secure; HttpOnly", .setCookie: "itspod=2; Path=/",
    .accessControlAllowCredentials: "true", .accessControlExposeHeaders: "Music-User-Token",
    .wwwAuthenticate: "Bearer", .proxyAuthenticate: "Basic", .strictTransportSecurity: "max-age=31536000",
    .literal("Alt-Svc"): "h3=\":443\"", .server: "sandbox", .literal("X-Apple-Jingle-Correlation-Key"): "SANDBOX",
  ]
}

extension Substring {
  /// Returns the number that only digits write, if it is in the range.
  func number(in range: ClosedRange<Int>) -> Int? {
    guard utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(self) else { return nil }
    return range.contains(number) ? number : nil
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
      ("query", query.map { .text($0) }), ("remaining", remaining.map { .whole($0) }), ("hits", .whole(hits)),
    ])
  }
}
