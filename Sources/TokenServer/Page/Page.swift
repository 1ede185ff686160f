import Access
import DeveloperToken
import EventLoop
import HTTP1
import HTTPCache
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
  let generation: RuntimeSnapshot
  private var settings: Settings { generation.settings }
  private var isDemo: Bool { generation.source.isDemo }

  var publicRoutes: [Route] { files(PageSecurity(of: settings.catalog, isDemo: isDemo)) + describedRoutes.dropFirst() }

  /// The routes of the public listener that are of use without the page.
  var describedRoutes: [Route] {
    let security = PageSecurity(of: settings.catalog, isDemo: isDemo)
    let inspection = InspectionEndpoint(generation: generation, rule: nil)
    return [WebFileEndpoint(.page, fields: security.fields).route, facts(nil), inspection.route] + Self.moduleRoutes
  }

  /// The routes of the module for web apps, which needs no page.
  static var moduleRoutes: [Route] { WebFile.module.map { WebModuleEndpoint($0).route } }

  var adminRoutes: [Route] {
    let rule = OwnPageRule(checksHosts: settings.adminHosts != nil)
    let inspection = InspectionEndpoint(generation: generation, rule: rule)
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
      let url = rule == nil ? nil : generation.services.publicURL.withLock { $0 }
      return .json(JSONValue.object(of: facts + [("publicURL", url.map { JSONValue.text($0) })]).ascii.utf8)
    }
  }

  /// What the page of a listener can offer. Only the admin listener and the demo name clients.
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
      return .json("{\"records\":".utf8 + generation.services.access.audit.recentRecords + "}".utf8)
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

  /// Allows nothing outside of the listener without a catalog. With one, Apple's artwork, or the emulator's in the demo, and
  /// MusicKit JS if users can sign in.
  init(of catalog: Settings.Catalog? = nil, isDemo: Bool = false) {
    guard let catalog else { return }
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

/// The endpoint of a file in the program: compressed if the caller accepts gzip, with 304 for a caller that has it.
struct WebFileEndpoint: Sendable {
  private let path: StaticString
  private let representation: FixedRepresentation
  /// The fields of 304, without those that only describe content (RFC 9110 §15.4.5).
  private let common: FieldSection
  private let plain: FieldSection
  private let compressed: FieldSection

  /// Creates the endpoint. Browsers ask each time, because the path is the same in another release.
  init(_ file: WebFile, fields: HTTPFields = [:]) {
    path = file.path
    representation = FixedRepresentation(file.content)
    var common: HTTPFields = [
      .eTag: representation.entityTag, .cacheControl: "no-cache", .vary: "Accept-Encoding, Origin",
      .xContentTypeOptions: "nosniff",
    ]
    for field in fields { common[field.name] = field.value }
    self.common = FieldSection(common)
    common[.contentType] = file.mediaType
    plain = FieldSection(common)
    common[.contentEncoding] = "gzip"
    compressed = FieldSection(common)
  }

  var route: Route { Route(get: path) { response(to: $0) } }

  func response(to request: Request) -> Response {
    var coding: ContentCoding?
    request.forEach("accept-encoding") { coding = coding ?? ContentCoding.preferred(acceptEncoding: $0) }
    var preconditions = Preconditions()
    request.forEach("if-none-match") { preconditions.add(ifNoneMatch: $0) }
    switch representation.selection(for: coding ?? .identity, preconditions) {
    case .notModified: return Response(.notModified, prepared: common)
    case .content(let content, .gzip): return Response(.ok, prepared: compressed, body: content)
    case .content(let content, .identity): return Response(.ok, prepared: plain, body: content)
    }
  }
}

/// The endpoint of a file that pages of every origin may load: the module for web apps, and its types.
struct WebModuleEndpoint: Sendable {
  private let path: StaticString
  private let current: WebFileEndpoint
  private let versioned: WebFileEndpoint

  /// The query of the address that caches may keep. The content of any other may change with an update.
  private static let query = Array("v=\(Release.version)".utf8)

  init(_ file: WebFile) {
    path = file.path
    // No Vary for Origin, because the response does not depend on it.
    var fields: HTTPFields = [.vary: "Accept-Encoding", .crossOriginResourcePolicy: "cross-origin"]
    current = WebFileEndpoint(file, fields: fields)
    fields[.cacheControl] = "public, max-age=31536000, immutable"
    versioned = WebFileEndpoint(file, fields: fields)
  }

  var route: Route { Route(get: path) { response(to: $0) } }

  private func response(to request: Request) -> Response {
    let isVersioned = request.query?.elementsEqual(Self.query) ?? false
    var response = (isVersioned ? versioned : current).response(to: request)
    response.fields[.accessControlAllowOrigin] = "*"
    return response
  }
}
