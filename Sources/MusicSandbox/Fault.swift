import HTTPMessages
import HTTPTypes
import MusicCatalog

/// A fault that a test or an option requests, as it writes it: `status=503`.
package struct Fault: Sendable, Equatable, CustomStringConvertible {
  /// A kind of fault. Its raw value is its name in requests; docs/sandbox.md explains each.
  package enum Kind: String, Sendable {
    case delay, status, redirect, huge, slow, reset, truncate, goaway
    case unauthorized = "empty-401"
    case rateLimited = "rate-limit"
    case foreignFields = "set-cookie"
    case libraryChanges = "library-changes"
  }

  let kind: Kind
  private let value: Substring?
  /// The status, the number of bytes, or the milliseconds of a delay; 0 for other faults.
  let number: Int

  /// The maximum delay in milliseconds, so that a typing error does not hold connections forever.
  static let maximumDelay = 600_000
  private static let maximumContent = 1 << 30

  static func parse(_ text: String) -> [Fault]? {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false)
    let faults = parts.compactMap(Fault.init)
    return faults.count == parts.count ? faults : nil
  }

  private init?(_ text: Substring) {
    let halves = text.halves("=")
    guard let kind = Kind(rawValue: String(halves?.0 ?? text)) else { return nil }
    let value = halves?.1
    let number: Int? =
      switch kind {
      case .delay: value?.milliseconds(in: 0...Self.maximumDelay)
      case .status: value?.number(in: 400...599)
      case .huge, .slow: value?.number(in: 1...Self.maximumContent)
      case .redirect: 0
      default: value == nil ? 0 : nil
      }
    guard let number else { return nil }
    (self.kind, self.value, self.number) = (kind, value, number)
  }

  package var description: String { kind.rawValue + (value.map { "=\($0)" } ?? "") }

  /// Returns the response that replaces the real one; nil if this fault keeps it.
  func replacement(id: String) -> SandboxResponse? {
    switch kind {
    case .status: SandboxResponse(AppleError(status: number), id: id)
    case .unauthorized: .unauthorized
    case .rateLimited: .rateLimited
    case .redirect:
      SandboxResponse(301, fields: [.location: value.map(String.init) ?? "https://music.example/elsewhere"])
    case .huge: SandboxResponse(200, fields: [.contentType: SandboxResponse.mediaType])
    default: nil
    }
  }

  static let foreign: HTTPFields = [
    .setCookie: "sandbox=1; Path=/; Secure; HttpOnly", .setCookie: "itspod=2; Path=/",
    .accessControlAllowCredentials: "true", .accessControlExposeHeaders: "Music-User-Token",
    .wwwAuthenticate: "Bearer", .proxyAuthenticate: "Basic", .strictTransportSecurity: "max-age=31536000",
    .literal("Alt-Svc"): "h3=\":443\"", .server: "sandbox", .literal("X-Apple-Jingle-Correlation-Key"): "SANDBOX",
  ]
}
