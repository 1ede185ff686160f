import Access
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON
import ServerSettings

/// The document at `/openapi.json`: the API of the public listener under the present settings, for people and tools.
///
/// Its paths are the patterns of the router's own routes, so none can be missing. A path that ``description(of:at:)``
/// does not know appears without details.
struct OpenAPI: Sendable {
  let document: [UInt8]

  /// - Parameter patterns: The patterns of all other routes of the listener.
  init(_ patterns: [RoutePattern], of settings: Settings) {
    let facts = Facts(settings)
    let paths = (patterns + [RoutePattern(Self.path.description)]).map { pattern in
      (pattern.path, JSONValue.object(of: Self.operations(at: pattern, facts)))
    }
    let object: JSONValue = [
      "openapi": "3.1.0", "info": Self.info, "security": facts.security, "paths": .object(of: paths),
      "components": Self.components(facts),
    ]
    document = Array(object.ascii.utf8)
  }

  private static let path: StaticString = "/openapi.json"

  var route: Route {
    let response = Response(
      .ok,
      fields: [
        // The settings in the document may change with a reload.
        .contentType: "application/json", .cacheControl: "public, max-age=60", .xContentTypeOptions: "nosniff",
      ], body: document)
    return Route(get: Self.path) { _ in response }
  }

  private static let info: JSONValue = [
    "title": "musickit-token-server", "version": "1",
    "summary": "Developer tokens for Apple Music, and Apple's catalog without one",
    "description": """
    Keeps the MusicKit private key on the server, mints short-lived ES256 developer tokens, and fetches from Apple's \
    catalog with a token that callers never see. Paths, parameters and responses below /v1/ are those of the Apple \
    Music API. Every GET path also supports HEAD, and every path OPTIONS.
    """,
  ]

  private static func operations(at pattern: RoutePattern, _ facts: Facts) -> [(String, JSONValue?)] {
    pattern.methods.compactMap { method in
      guard let name = method.openAPIName else { return nil }
      return (name, description(of: name, at: pattern.path).json(name, pattern.path, facts))
    }
  }
}

extension OpenAPI {
  struct Facts {
    /// The maximum lifetime of a token for any caller, and the default, in seconds.
    let maximumTTL: Int
    let defaultTTL: Int
    /// The kinds of credentials that callers have.
    let kinds: [String]
    /// Whether requests for other hosts get 421.
    let checksHosts: Bool

    init(_ settings: Settings) {
      let callers = settings.access.clients + [settings.access.anonymous].compactMap { $0 }
      let server = Int(settings.token.maxTTL.components.seconds)
      let most = callers.filter(\.token).map { min($0.ttl ?? server, server) }.max() ?? server
      (maximumTTL, defaultTTL) = (most, min(Int(settings.token.ttl.components.seconds), most))
      kinds = callers.map(\.credential.kind)
      checksHosts = settings.publicHosts != nil
    }

    /// Whether some callers need no credential: those known by their origin, or anonymous ones.
    var servesWithoutCredential: Bool { kinds.contains("origin") || kinds.contains("anonymous") }

    /// The schemes of the credentials that the server accepts, with their definitions.
    var schemes: JSONValue {
      let bearer = [
        kinds.contains("apiKey") ? "an API key" : nil,
        kinds.contains("jwt") ? "a JSON Web Token of an identity provider" : nil,
      ].compactMap { $0 }.joined(separator: ", or ")
      return .object(of: [
        (
          "bearer",
          bearer.isEmpty ? nil : ["type": "http", "scheme": "bearer", "description": "The token is \(bearer)."]
        ),
        ("apiKey", kinds.contains("apiKey") ? ["type": "apiKey", "in": "header", "name": "X-API-Key"] : nil),
        ("clientCertificate", kinds.contains("certificate") ? ["type": "mutualTLS"] : nil),
      ])
    }

    var security: JSONValue {
      let none: [JSONValue] = servesWithoutCredential ? [[:]] : []
      return .array(none + schemes.members.map { JSONValue.object([JSONValue.Member(name: $0.name, value: [])]) })
    }
  }
}

extension Client.Credential {
  /// The word for this kind of credential.
  var kind: String {
    switch self {
    case .apiKeys: "apiKey"
    case .jwt: "jwt"
    case .certificate: "certificate"
    case .origin: "origin"
    case .anonymous: "anonymous"
    }
  }
}

extension RequestHead.Method {
  /// The method as in a path item of OpenAPI; nil for methods that every path supports.
  fileprivate var openAPIName: String? {
    switch self {
    case .get, .post, .put, .patch, .delete: "\(name)".lowercased()
    case .head, .options, .trace, .connect, .other: nil
    }
  }
}
