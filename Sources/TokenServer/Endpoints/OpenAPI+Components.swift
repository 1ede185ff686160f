extension OpenAPI {
  /// What operations refer to.
  static func components(_ facts: Facts) -> String {
    let schemes = facts.schemes
    return JSONText.object([
      ("securitySchemes", schemes.isEmpty ? nil : JSONText.object(schemes)), ("parameters", parameters),
      ("schemas", schemas(facts)), ("responses", responses),
    ])
  }

  /// By the name that each has in a path.
  private static let parameters = #"""
    {
      "storefront": { "name": "storefront", "in": "path", "required": true, "description": "A storefront's code.",
        "schema": { "type": "string", "pattern": "^[a-z]{2}$", "examples": ["us"] } },
      "type": { "name": "type", "in": "path", "required": true, "description": "A type of resource.",
        "schema": { "type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 64, "examples": ["albums"] } },
      "id": { "name": "id", "in": "path", "required": true, "description": "A resource's identifier.",
        "schema": { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]*$", "maxLength": 128,
          "examples": ["1200868601"] } },
      "relationship": { "name": "relationship", "in": "path", "required": true,
        "description": "A relationship of that type of resource.",
        "schema": { "type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 64, "examples": ["artists"] } },
      "view": { "name": "view", "in": "path", "required": true, "description": "A view of that type of resource.",
        "schema": { "type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 64,
          "examples": ["appears-on"] } },
      "path": { "name": "path", "in": "path", "required": true,
        "description": "What Apple has there. Whatever is below is forwarded as well.",
        "schema": { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]*$", "maxLength": 128,
          "examples": ["playlists"] } }
    }
    """#

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
          "refreshAfter": { "type": "integer", "description": "When to come back for another; never in the past." },
          "origin": { "type": "array", "minItems": 1, "items": { "type": "string" },
            "description": "The token's origin claim, if it has one." }
        }
      },
      "Document": { "type": "object" },
      "Errors": {
        "type": "object", "required": ["errors"],
        "properties": { "errors": { "type": "array", "minItems": 1, "items": {
          "type": "object", "required": ["id", "status", "code", "title", "detail"],
          "properties": { "id": { "type": "string" }, "status": { "type": "string" }, "code": { "type": "string" },
            "title": { "type": "string" }, "detail": { "type": "string" } } } } }
      }
    }
    """
  }

  private static let responses = #"""
    {
      "Token": {
        "description": "The token, as JSON or bare as the request's Accept prefers",
        "content": {
          "application/json": { "schema": { "$ref": "#/components/schemas/Token" } },
          "application/jwt": { "schema": { "type": "string" } },
          "text/plain": { "schema": { "type": "string" } }
        }
      },
      "Resource": {
        "description": "The document, Apple's from the cache or fresh",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Document" } } }
      },
      "Accepted": { "description": "It is so, and nothing more is said" },
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
