import HTTPMessages
import JSON

/// The description of each operation in `/openapi.json`.
extension OpenAPI {
  struct Operation {
    var summary: String
    var query: [JSONValue] = []
    /// The schema of the request content; nil if the operation has none.
    var content: String?
    /// Whether a request without content is malformed.
    var needsContent = false
    /// The components of successful responses, by status.
    var responses = ["200": "Resource"]
    /// The usual statuses of refusals.
    var refusals: [String] = []
    /// Whether the operation never needs a credential.
    var isForEverybody = false

    func json(_ method: String, _ path: String, _ facts: Facts) -> JSONValue {
      let refusals = self.refusals + (facts.checksHosts ? ["421"] : []) + ["default"]
      let documented = responses.sorted { $0.key < $1.key } + refusals.sorted().map { (key: $0, value: "Errors") }
      let parameters = Self.pathParameters(of: path) + query
      let request = content.map { content -> JSONValue in
        [
          "required": .bool(needsContent),
          "content": ["application/json": ["schema": Self.reference("schemas", content)]],
        ]
      }
      return .object(of: [
        ("operationId", .text(method + Self.identifier(of: path))), ("summary", .text(summary)),
        ("security", isForEverybody ? [] : nil), ("parameters", parameters.isEmpty ? nil : .array(parameters)),
        ("requestBody", request),
        ("responses", .object(of: documented.map { ($0.key, Self.reference("responses", $0.value)) })),
      ])
    }

    static func reference(_ kind: String, _ name: String) -> JSONValue {
      ["$ref": "#/components/\(kind)/\(name)"]
    }

    private static let parameterNames = ["storefront", "type", "id", "relationship", "view", "path"]

    private static func pathParameters(of path: String) -> [JSONValue] {
      path.split(separator: "/").compactMap { segment in
        guard segment.hasPrefix("{"), segment.hasSuffix("}") else { return nil }
        let name = String(segment.dropFirst().dropLast())
        if parameterNames.contains(name) { return reference("parameters", name) }
        return ["name": .text(name), "in": "path", "required": true, "schema": ["type": "string"]]
      }
    }

    /// Returns `V1CatalogStorefront` for `/v1/catalog/{storefront}`, which is unique for each path.
    private static func identifier(of path: String) -> String {
      path.split { !$0.isLetter && !$0.isNumber }.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
  }

  /// Returns the description of an operation, for a new one without details.
  static func description(of method: String, at path: String) -> Operation {
    switch (method, path) {
    case ("get", "/token"):
      Operation(
        summary: "A developer token, as JSON or as plain text, according to Accept", query: [tokenTTL, tokenOrigin],
        responses: ["200": "Token"],
        refusals: tokenRefusals)
    case ("post", "/token"):
      Operation(
        summary: "The same with parameters in the content; also for pages on this server's own origin, whose GET has "
          + "no Origin",
        content: "TokenRequest", responses: ["200": "Token"], refusals: tokenRefusals + ["413"])
    case ("get", "/healthz"): open("Whether the process can respond", "Status")
    case ("get", "/readyz"):
      Operation(
        summary: "Whether the server can do its job now", responses: ["200": "Status", "503": "Status"],
        isForEverybody: true)
    case ("get", "/openapi.json"): open("This document")
    case ("get", "/"): open("A page for browsers", "Page")
    case ("get", "/musickit-token.js"): open("A module for web apps, which keeps a valid token", "Module")
    case ("get", "/musickit-token.d.ts"): open("The types of the module for TypeScript", "Types")
    case ("post", "/page/inspect"):
      Operation(
        summary: "What is right and wrong with a developer token", content: "Inspection", needsContent: true,
        refusals: ["400", "401", "403", "413", "429"])
    case ("get", "/page/facts"): open("What the page can offer")
    case ("get", "/metrics"): open("Metrics in the text format of Prometheus")
    case ("get", "/config"): open("The settings in force, and what a reload would change")
    case ("post", "/access/explain"):
      Operation(
        summary: "What the server would decide about a request, and why", content: "Document",
        refusals: ["400", "403", "413", "429"])
    case ("get", "/v1/test"):
      Operation(
        summary: "Whether Apple accepts the server's developer token", responses: ["200": "Accepted"],
        refusals: catalogRefusals)
    case (_, let path) where path.hasPrefix("/v1/me/"): user(method, path)
    case ("get", let path) where path.hasPrefix("/v1/"): resource(at: path)
    default: Operation(summary: "\(method.uppercased()) \(path)")
    }
  }

  /// Returns an operation that never needs a credential.
  private static func open(_ summary: String, _ response: String = "Resource") -> Operation {
    Operation(summary: summary, responses: ["200": response], isForEverybody: true)
  }

  private static let tokenRefusals = ["400", "401", "403", "405", "429", "500"]
  private static let catalogRefusals = ["400", "401", "404", "405", "429", "502", "503", "504"]

  private static func user(_ method: String, _ path: String) -> Operation {
    Operation(
      summary: "The user's own: \(path)", query: [userToken],
      content: method == "get" || method == "delete" ? nil : "Document",
      responses: method == "get"
        ? ["200": "Resource"] : ["200": "Resource", "201": "Resource", "202": "Accepted", "204": "Accepted"],
      refusals: ["400", "401", "403", "404", "405", "429", "502", "503", "504"])
  }

  /// Returns the description of Apple's resource at a path, with its main parameters. The server also forwards others, such
  /// as `include` and `l`.
  private static func resource(at path: String) -> Operation {
    func operation(_ summary: String, _ query: JSONValue...) -> Operation {
      Operation(summary: summary, query: query, refusals: catalogRefusals)
    }
    return switch path {
    case "/v1/catalog/{storefront}":
      operation(
        "Several resources of several types, by their identifiers",
        text("ids[songs]", "Comma-separated identifiers; also ids[albums] and so on. At least one is required.", nil))
    case "/v1/catalog/{storefront}/search":
      operation(
        "Resources that match a term", text("term", "The search term.", "khalid", isRequired: true),
        text("types", "Comma-separated types.", "albums,songs"))
    case "/v1/catalog/{storefront}/search/hints":
      operation(
        "Terms that begin with the given text", text("term", "The beginning of a term.", "kha", isRequired: true))
    case "/v1/catalog/{storefront}/search/suggestions":
      operation(
        "Terms and resources that begin with the given text",
        text("term", "The beginning of a term.", "kha", isRequired: true),
        text("kinds", "terms, topResults, or both.", "terms", isRequired: true))
    case "/v1/catalog/{storefront}/charts":
      operation("The most played resources", text("types", "Comma-separated types.", "albums,songs", isRequired: true))
    case "/v1/catalog/{storefront}/{type}":
      operation(
        "Resources of one type, by identifiers or a filter; all genres without them",
        text("ids", "Comma-separated identifiers.", nil))
    case "/v1/catalog/{storefront}/{type}/{id}": operation("A resource of the catalog")
    case "/v1/catalog/{storefront}/{type}/{id}/{relationship}":
      operation("The related resources of a resource, page by page")
    case "/v1/catalog/{storefront}/{type}/{id}/view/{view}": operation("A view of a resource, page by page")
    case "/v1/storefronts": operation("The storefronts")
    case "/v1/storefronts/{storefront}": operation("A storefront")
    case "/v1/language/{storefront}/tag":
      operation(
        "The storefront's language that matches best",
        text("acceptLanguage", "Comma-separated language tags.", "en-GB", isRequired: true))
    default: operation("Apple's resource at \(path)")
    }
  }

  private static func text(
    _ name: String, in place: String = "query", _ description: String, _ example: String?, isRequired: Bool = false,
    pattern: String? = nil, maxLength: Int? = nil
  ) -> JSONValue {
    [
      "name": .text(name), "in": .text(place), "required": .bool(isRequired), "description": .text(description),
      "schema": .object(of: [
        ("type", "string"), ("pattern", pattern.map { .text($0) }), ("maxLength", maxLength.map { .whole($0) }),
        ("examples", example.map { [.text($0)] }),
      ]),
    ]
  }

  private static let tokenTTL: JSONValue = [
    "name": "ttl", "in": "query", "description": "Lifetime in seconds. A client may have a lower maximum.",
    "schema": Operation.reference("schemas", "Lifetime"),
  ]
  private static let tokenOrigin: JSONValue = [
    "name": "origin", "in": "query", "description": "A web origin that the token is bound to. May be repeated.",
    "style": "form", "explode": true,
    "schema": ["type": "array", "maxItems": 32, "items": Operation.reference("schemas", "Origin")],
  ]
  private static let userToken: JSONValue = [
    "name": "Music-User-Token", "in": "header", "required": true, "description": "The user's token, from MusicKit.",
    "schema": ["type": "string"],
  ]
}

extension OpenAPI {
  static func components(_ facts: Facts) -> JSONValue {
    let schemes = facts.schemes
    return .object(of: [
      ("securitySchemes", schemes.members.isEmpty ? nil : schemes), ("parameters", parameters),
      ("schemas", value(schemas(facts))), ("responses", value(responses)),
    ])
  }

  /// Reads a value that this file has as text.
  private static func value(_ json: String) -> JSONValue {
    let value = JSONReader.read(Array(json.utf8))
    assert(value != nil)
    return value ?? .null
  }

  private static let parameters: JSONValue = .object(
    of: [
      ("storefront", "A storefront's code.", "^[a-z]{2}$", nil, "us"),
      ("type", "A type of resource.", word, 64, "albums"),
      ("id", "A resource's identifier.", identifier, 128, "1200868601"),
      ("relationship", "A relationship of that type of resource.", word, 64, "artists"),
      ("view", "A view of that type of resource.", word, 64, "appears-on"),
      ("path", "Apple's resource. The server also forwards the paths below it.", identifier, 128, "playlists"),
    ].map { name, description, pattern, maxLength, example in
      (name, text(name, in: "path", description, example, isRequired: true, pattern: pattern, maxLength: maxLength))
    })

  private static let word = "^[a-z]+(-[a-z]+)*$"
  private static let identifier = "^[A-Za-z0-9][A-Za-z0-9._~-]*$"

  private static func schemas(_ facts: Facts) -> String {
    """
    {
      "Lifetime": { "type": "integer", "minimum": 60, "maximum": \(facts.maximumTTL), "default": \(facts.defaultTTL) },
      "Origin": { "type": "string",
        "pattern": "^https?://([a-z0-9]{1,30}\\\\.){0,3}[a-z][a-z0-9]{0,29}(:[1-9][0-9]{0,3})?$",
        "examples": ["https://app.example.com"] },
      "TokenRequest": {
        "type": "object", "additionalProperties": false,
        "properties": {
          "ttl": { "$ref": "#/components/schemas/Lifetime" },
          "origin": { "oneOf": [ { "$ref": "#/components/schemas/Origin" },
            { "type": "array", "minItems": 1, "maxItems": 32, "items": { "$ref": "#/components/schemas/Origin" } } ] }
        }
      },
      "Token": {
        "type": "object", "additionalProperties": false,
        "required": ["token", "issuedAt", "expiresAt", "expiresIn", "refreshAfter"],
        "properties": {
          "token": { "type": "string", "description": "For Authorization: Bearer, or MusicKit.configure." },
          "issuedAt": { "type": "integer", "description": "The token's iat: seconds since 1970." },
          "expiresAt": { "type": "integer", "description": "The token's exp." },
          "expiresIn": { "type": "integer", "description": "Seconds from now to expiresAt." },
          "refreshAfter": { "type": "integer", "description": "When to request the next token; never in the past." },
          "origin": { "type": "array", "minItems": 1, "items": { "type": "string" },
            "description": "The token's origin claim, if it has one." }
        }
      },
      "Document": { "type": "object" },
      "Inspection": {
        "type": "object", "additionalProperties": false, "required": ["token"],
        "properties": { "token": { "type": "string" }, "origin": { "$ref": "#/components/schemas/Origin" } }
      },
      "Errors": {
        "type": "object", "required": ["errors"],
        "properties": { "errors": { "type": "array", "minItems": 1, "items": {
          "type": "object", "required": ["id", "status", "code", "title", "detail"],
          "properties": { "id": { "type": "string" }, "status": { "type": "string" }, "code": { "type": "string" },
            "title": { "type": "string" }, "detail": { "type": "string" },
            "meta": { "type": "object", "required": ["status"],
              "description": "What Apple said in the response that this error replaces",
              "properties": { "status": { "type": "string" }, "code": { "type": "string" }, "id": { "type": "string" },
                "title": { "type": "string" }, "correlationKey": { "type": "string" },
                "requestUUID": { "type": "string" }, "retryAfter": { "type": "string" } } } } } } }
      }
    }
    """
  }

  private static let responses = #"""
    {
      "Token": {
        "description": "The token, as JSON or as plain text, according to the request's Accept",
        "content": {
          "application/json": { "schema": { "$ref": "#/components/schemas/Token" } },
          "application/jwt": { "schema": { "type": "string" } },
          "text/plain": { "schema": { "type": "string" } }
        }
      },
      "Resource": {
        "description": "The document: a new response of Apple, or one from the cache",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Document" } } }
      },
      "Page": { "description": "The page", "content": { "text/html": { "schema": { "type": "string" } } } },
      "Module": { "description": "The module", "content": { "text/javascript": { "schema": { "type": "string" } } } },
      "Types": { "description": "The types", "content": { "text/plain": { "schema": { "type": "string" } } } },
      "Accepted": { "description": "Apple accepts the token; the response has no more information" },
      "Status": {
        "description": "A verdict",
        "content": { "application/json": { "schema": {
          "type": "object", "required": ["status"], "properties": { "status": { "type": "string" } } } } }
      },
      "Errors": {
        "description": "A refusal, in the shape of Apple's errors",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Errors" } } }
      }
    }
    """#
}
