import Access
import EventLoop
import JSON
import Locks
import ServerSettings

/// What the page of a listener can offer, from the settings. On the public listener, they say what `/openapi.json` says
/// too; only the admin listener and the demo name clients.
struct PageFacts: Sendable {
  private let members: [(String, JSONValue?)]
  private let isDemo: Bool
  private let isAdmin: Bool

  init(_ settings: Settings, isDemo: Bool, isAdmin: Bool) {
    (self.isDemo, self.isAdmin) = (isDemo, isAdmin)
    let known = OpenAPI.Facts(settings)
    let callers = settings.access.clients + [settings.access.anonymous].compactMap { $0 }
    let kinds = [
      known.knowsAPIKeys ? "apiKey" : nil, known.knowsJWTs ? "jwt" : nil,
      known.knowsCertificates ? "certificate" : nil,
    ]
    members = [
      ("listener", isAdmin ? "admin" : "public"), ("demo", .bool(isDemo)), ("catalog", .bool(settings.catalog != nil)),
      ("me", .bool(settings.catalog?.me ?? false)), ("explains", .bool(isAdmin || isDemo)),
      ("live", .bool(isAdmin || isDemo)), ("anonymous", .bool(known.servesWithoutCredential)),
      ("credentials", .strings(kinds.compactMap { $0 })),
      ("lifetime", ["default": .whole(known.defaultTTL), "maximum": .whole(known.maximumTTL)]),
      ("clients", isAdmin || isDemo ? .array(callers.map(Self.object)) : nil),
    ]
  }

  func json(_ listeners: BoundListeners) -> String {
    let url = isAdmin ? listeners.publicURL : nil
    return JSONValue.object(of: members + [("publicURL", url.map { JSONValue.text($0) })]).ascii
  }

  private static func object(_ client: Client) -> JSONValue {
    [
      "id": .text(client.id), "kind": .text(client.credential.name), "origins": .strings(client.origins.patterns),
    ]
  }
}

extension Client.Credential {
  fileprivate var name: String {
    switch self {
    case .apiKeys: "apiKey"
    case .jwt: "jwt"
    case .certificate: "certificate"
    case .origin: "origin"
    case .anonymous: "anonymous"
    }
  }
}

extension AllowedOrigins {
  fileprivate var patterns: [String] {
    switch self {
    case .only(let patterns): patterns.map { "\($0)" }
    case .any, .loopback: []
    }
  }
}

/// The URL at which this machine reaches the public listener. The system picks some ports, so it is known after the start.
final class BoundListeners: Sendable {
  private let known = Locked<String?>(nil)

  /// The URL; nil before the start.
  var publicURL: String? { known.withLock { $0 } }

  func use(_ addresses: Application.Addresses) {
    let first = addresses.public.first { $0.ipAddress?.isIPv4 ?? false } ?? addresses.public.first
    known.withLock { $0 = first.map(addresses.url) }
  }
}
