import Access
import Bytes
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON
import ServerSettings
import WebFiles

/// The document at `/openapi.json`: the API of the public listener under the present settings, for people and tools. Its
/// paths are the router's own patterns, so none is missing; one that ``description(of:at:)`` lacks has no details.
struct OpenAPI: Sendable {
  let document: [UInt8]

  /// - Parameter patterns: The patterns of all other routes of the listener.
  init(_ patterns: [RoutePattern], of settings: Settings) {
    let facts = Facts(settings)
    let paths = (patterns + [RoutePattern(WebFile.openAPI.path.description)]).map { pattern in
      let operations = pattern.methods.map { method -> (String, JSONValue?) in
        let name = "\(method.name)".lowercased()
        return (name, Self.description(of: name, at: pattern.path).json(name, pattern.path, facts))
      }
      return (pattern.path, JSONValue.object(of: operations))
    }
    let object: JSONValue = [
      "openapi": "3.1.0", "info": Self.file["info"] ?? .null, "security": facts.security, "paths": .object(of: paths),
      "components": Self.components(facts),
    ]
    document = Array(object.ascii.utf8)
  }

  var route: Route {
    // The settings in the document may change with a reload.
    let fields: HTTPFields = [
      .contentType: "application/json", .cacheControl: "public, max-age=60", .xContentTypeOptions: "nosniff",
    ]
    let response = Response(.ok, fields: fields, body: document)
    return Route(get: WebFile.openAPI.path) { _ in response }
  }

  /// What no setting changes: `info`, the components, and a row for each operation, with parameters as OpenAPI has them.
  private static let file = JSONReader.read(WebFile.openAPI.content) ?? .null

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
      let tokens = [("apiKey", "an API key"), ("jwt", "a JSON Web Token of an identity provider")]
      let names = tokens.filter { kinds.contains($0.0) }.map(\.1).joined(separator: ", or ")
      let bearer: JSONValue = ["type": "http", "scheme": "bearer", "description": "The token is \(names)."]
      return .object(of: [
        ("bearer", names.isEmpty ? nil : bearer),
        ("apiKey", kinds.contains("apiKey") ? ["type": "apiKey", "in": "header", "name": "X-API-Key"] : nil),
        ("clientCertificate", kinds.contains("certificate") ? ["type": "mutualTLS"] : nil),
      ])
    }

    var security: JSONValue {
      let none: [JSONValue] = servesWithoutCredential ? [[:]] : []
      return .array(none + schemes.members.map { JSONValue.object([JSONValue.Member(name: $0.name, value: [])]) })
    }
  }

  struct Operation {
    /// A row of the file. Without `responses`, it has 200 with a resource; `content` names the schema of request content.
    private let row: JSONValue

    fileprivate init(_ row: JSONValue) { self.row = row }

    var summary: String { row["summary"]?.string?.text ?? "" }

    fileprivate func json(_ method: String, _ path: String, _ facts: Facts) -> JSONValue {
      let known = row["refusals"] ?? (path.hasPrefix("/v1/") ? OpenAPI.catalogRefusals : [])
      let refusals = known.strings.map(\.text) + (facts.checksHosts ? ["421"] : []) + ["default"]
      let written = (row["responses"] ?? ["200": "Resource"]).members
      let successes = written.map { ($0.name.text, $0.value.string?.text ?? "") }
      let responses = successes + refusals.sorted().map { ($0, "Errors") }
      let parameters = Self.pathParameters(of: path) + (row["parameters"]?.elements ?? [])
      let request = row["content"]?.string.map { content -> JSONValue in
        let schema = Self.reference("schemas", content.text)
        return ["required": row["needsContent"] ?? false, "content": ["application/json": ["schema": schema]]]
      }
      return .object(of: [
        ("operationId", .text(method + Self.identifier(of: path))), ("summary", .text(summary)),
        ("security", row["isForEverybody"] == true ? [] : nil),
        ("parameters", parameters.isEmpty ? nil : .array(parameters)), ("requestBody", request),
        ("responses", .object(of: responses.map { ($0.0, Self.reference("responses", $0.1)) })),
      ])
    }

    private static func reference(_ kind: String, _ name: String) -> JSONValue {
      ["$ref": "#/components/\(kind)/\(name)"]
    }

    private static func pathParameters(of path: String) -> [JSONValue] {
      path.split(separator: "/").compactMap { segment in
        guard segment.hasPrefix("{"), segment.hasSuffix("}") else { return nil }
        let name = String(segment.dropFirst().dropLast())
        if OpenAPI.file["components"]?["parameters"]?[name] != nil { return reference("parameters", name) }
        return ["name": .text(name), "in": "path", "required": true, "schema": ["type": "string"]]
      }
    }

    /// Returns `V1CatalogStorefront` for `/v1/catalog/{storefront}`, which is unique for each path.
    private static func identifier(of path: String) -> String {
      path.split { !$0.isLetter && !$0.isNumber }.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
  }

  private static let catalogRefusals: JSONValue = ["400", "401", "404", "405", "429", "502", "503", "504"]

  /// Returns the description of an operation. A new one has no details.
  static func description(of method: String, at path: String) -> Operation {
    if path.hasPrefix("/v1/me/") { return user(method, path) }
    let isOfApple = method == "get" && path.hasPrefix("/v1/")
    let summary = isOfApple ? "Apple's resource at \(path)" : "\(method.uppercased()) \(path)"
    return Operation(file["operations"]?["\(method) \(path)"] ?? ["summary": .text(summary)])
  }

  private static func user(_ method: String, _ path: String) -> Operation {
    let changes: JSONValue = ["200": "Resource", "201": "Resource", "202": "Accepted", "204": "Accepted"]
    return Operation(
      .object(of: [
        ("summary", .text("The user's own: \(path)")), ("parameters", file["userToken"].map { .array([$0]) }),
        ("content", method == "get" || method == "delete" ? nil : "Document"),
        ("responses", method == "get" ? nil : changes), ("refusals", .array(catalogRefusals.elements + ["403"])),
      ]))
  }

  private static func components(_ facts: Facts) -> JSONValue {
    let (schemes, fixed) = (facts.schemes, file["components"])
    let lifetime: JSONValue = [
      "type": "integer", "minimum": 60, "maximum": .whole(facts.maximumTTL), "default": .whole(facts.defaultTTL),
    ]
    let schemas = [JSONValue.Member(name: "Lifetime", value: lifetime)] + (fixed?["schemas"]?.members ?? [])
    return .object(of: [
      ("securitySchemes", schemes.members.isEmpty ? nil : schemes), ("parameters", fixed?["parameters"]),
      ("schemas", .object(schemas)), ("responses", fixed?["responses"]),
    ])
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
