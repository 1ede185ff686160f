import Access
import DeveloperToken
import EventLoop
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON
import Locks
import ServerSettings
import Telemetry
import WebFiles

/// The page for browsers: its files, and the few routes that only it uses.
///
/// The page has no right of its own. On the public listener it sends what any caller can send, with the credential that
/// the person enters. Explanations, audit records and metrics are on the admin listener only. The demo's public listener
/// has them too, so that its page is complete: Apple does not know the demo's key, and its callers only try it.
struct Page: Sendable {
  let settings: Settings
  let isDemo: Bool
  let gate: AccessGate
  let keys: [SigningKey]
  let publicURL: Locked<String?>

  var publicRoutes: [Route] {
    files(PageSecurity(publicPageOf: settings, isDemo: isDemo)) + describedRoutes.dropFirst()
  }

  /// The routes of the public listener that are of use without the page.
  var describedRoutes: [Route] {
    let security = PageSecurity(publicPageOf: settings, isDemo: isDemo)
    let inspection = InspectionEndpoint(keys: keys, gate: gate, rule: nil)
    return [WebFileEndpoint(.page, fields: security.fields).route, facts(nil), inspection.route] + Self.moduleRoutes
  }

  /// The routes of the module for web apps, which needs no page.
  static var moduleRoutes: [Route] { WebFile.module.map { WebModuleEndpoint($0).route } }

  var adminRoutes: [Route] {
    let rule = OwnPageRule(checksHosts: settings.adminHosts != nil)
    let inspection = InspectionEndpoint(keys: keys, gate: gate, rule: rule)
    return files(PageSecurity()) + [facts(rule), inspection.route, audit(rule)]
  }

  private func files(_ security: PageSecurity) -> [Route] {
    let parts = (WebFile.partsOfPage + WebFile.recipes).map { WebFileEndpoint($0, fields: PageSecurity.ofParts).route }
    return [WebFileEndpoint(.page, fields: security.fields).route] + parts
  }

  /// - Parameter rule: The rule of the admin listener, whose facts name the clients; nil for the public listener.
  private func facts(_ rule: OwnPageRule?) -> Route {
    let facts = facts(isAdmin: rule != nil)
    return Route(get: "/page/facts") { request in
      if let refusal = rule?.refusal(of: request) { return refusal.response(id: request.id) }
      let url = rule == nil ? nil : publicURL.withLock { $0 }
      return .json(JSONValue.object(of: facts + [("publicURL", url.map { JSONValue.text($0) })]).ascii.utf8)
    }
  }

  /// What the page of a listener can offer, from the settings. On the public listener, they say what `/openapi.json` says
  /// too; only the admin listener and the demo name clients.
  private func facts(isAdmin: Bool) -> [(String, JSONValue?)] {
    let known = OpenAPI.Facts(settings)
    let callers = settings.access.clients + [settings.access.anonymous].compactMap { $0 }
    let clients = callers.map { client -> JSONValue in
      ["id": .text(client.id), "kind": .text(client.credential.kind), "origins": .strings(client.origins.patterns)]
    }
    return [
      ("listener", isAdmin ? "admin" : "public"), ("demo", .bool(isDemo)), ("catalog", .bool(settings.catalog != nil)),
      ("me", .bool(settings.catalog?.me ?? false)), ("explains", .bool(isAdmin || isDemo)),
      ("live", .bool(isAdmin || isDemo)), ("anonymous", .bool(known.servesWithoutCredential)),
      ("credentials", .strings(["apiKey", "jwt", "certificate"].filter(known.kinds.contains))),
      ("lifetime", ["default": .whole(known.defaultTTL), "maximum": .whole(known.maximumTTL)]),
      ("clients", isAdmin || isDemo ? .array(clients) : nil),
    ]
  }

  /// The last audit records, for the page of the listener alone.
  func audit(_ rule: OwnPageRule) -> Route {
    Route(get: "/page/audit") { request in
      if let refusal = rule.refusal(of: request) { return refusal.response(id: request.id) }
      return .json("{\"records\":".utf8 + gate.service.audit.recentRecords + "}".utf8)
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

/// What a browser may load for the page, and to whom it may show the page.
struct PageSecurity {
  private var scripts = ["'self'"]
  private var connections = ["'self'"]
  private var images = ["'self'"]
  /// Whether the page runs only its own scripts, so that no code may make scripts from text (Trusted Types).
  private var isClosed = true

  /// Allows nothing outside of the listener.
  init() {}

  /// Allows Apple's artwork, and MusicKit JS if users can sign in. In the demo the emulator takes Apple's place.
  init(publicPageOf settings: Settings, isDemo: Bool) {
    guard let catalog = settings.catalog else { return }
    images.append(isDemo ? catalog.upstream.description : "https://*.mzstatic.com")
    guard catalog.me, !isDemo else { return }
    scripts.append("https://js-cdn.music.apple.com")
    connections.append("https://*.music.apple.com")
    isClosed = false
  }

  var fields: HTTPFields {
    var fields = Self.ofParts
    fields[.contentSecurityPolicy] = policy
    // MusicKit JS opens a window of Apple, which responds to the page.
    fields[.crossOriginOpenerPolicy] = isClosed ? "same-origin" : "same-origin-allow-popups"
    return fields
  }

  /// The fields of everything that the document loads.
  static let ofParts: HTTPFields = [.referrerPolicy: "no-referrer", .crossOriginResourcePolicy: "same-origin"]

  private var policy: String {
    let directives = [
      "default-src 'none'", "script-src \(scripts.joined(separator: " "))", "style-src 'self'",
      "img-src \(images.joined(separator: " "))", "connect-src \(connections.joined(separator: " "))",
      "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    ]
    return (directives + (isClosed ? ["require-trusted-types-for 'script'", "trusted-types 'none'"] : []))
      .joined(separator: "; ")
  }
}

extension HTTPField.Name {
  fileprivate static let referrerPolicy = HTTPField.Name.literal("Referrer-Policy")
  fileprivate static let crossOriginOpenerPolicy = HTTPField.Name.literal("Cross-Origin-Opener-Policy")
  fileprivate static let crossOriginResourcePolicy = HTTPField.Name.literal("Cross-Origin-Resource-Policy")
}
