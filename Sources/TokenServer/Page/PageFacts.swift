import Access
import EventLoop
import JSON
import Locks
import ServerSettings

/// What the page of a listener can offer, from the settings. On the public listener, they say what `/openapi.json` says
/// too; only the admin listener and the demo name clients.
struct PageFacts: Sendable {
  private let members: [(name: String, value: String?)]
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
      ("listener", JSONText.string(isAdmin ? "admin" : "public")), ("demo", "\(isDemo)"),
      ("catalog", "\(settings.catalog != nil)"),
      ("me", "\(settings.catalog?.me ?? false)"), ("explains", "\(isAdmin || isDemo)"),
      ("live", "\(isAdmin || isDemo)"),
      ("anonymous", "\(known.servesWithoutCredential)"),
      ("credentials", JSONText.array(kinds.compactMap { $0.map(JSONText.string) })),
      (
        "lifetime",
        JSONText.object([("default", "\(known.defaultTTL)"), ("maximum", "\(known.maximumTTL)")])
      ),
      ("clients", isAdmin || isDemo ? JSONText.array(callers.map(Self.object)) : nil),
    ]
  }

  /// Returns the facts as a JSON object.
  func json(_ listeners: BoundListeners) -> String {
    let urls = listeners.urls
    return JSONText.object(
      members + [
        ("publicURL", isAdmin ? urls?.public.map(JSONText.string) : nil)
      ])
  }

  private static func object(_ client: Client) -> String {
    JSONText.object([
      ("id", JSONText.string(client.id)), ("kind", JSONText.string(client.credential.name)),
      ("origins", JSONText.array(client.origins.patterns.map(JSONText.string))),
    ])
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

/// The URLs at which this machine reaches the listeners. The system picks some ports, so they are known after the start.
/// The admin listener has none for callers from elsewhere, such as those of a container's published port.
final class BoundListeners: Sendable {
  private let known = Locked<(public: String?, admin: String?)?>(nil)

  /// The URLs; nil before the start.
  var urls: (public: String?, admin: String?)? { known.withLock { $0 } }

  /// Uses the addresses of the running server.
  func use(_ addresses: Application.Addresses) {
    let first = addresses.public.first { $0.ipAddress?.isIPv4 ?? false } ?? addresses.public.first
    known.withLock {
      $0 = (first.map(addresses.url), addresses.areLoopback ? addresses.admin.first.map { "http://\($0)" } : nil)
    }
  }
}
