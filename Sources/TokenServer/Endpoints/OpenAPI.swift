import HTTPServer
import HTTPTypes

/// `/openapi.json`: what the public listener answers, for people and for tools.
enum OpenAPI {
  static let route = Route("/openapi.json", [.get { _ in response }])

  private static let response = Response(
    .ok,
    fields: [
      .contentType: "application/json", .cacheControl: "public, max-age=3600", .xContentTypeOptions: "nosniff",
    ],
    body: Array(document.utf8))

  /// Kept as text, as it is served: held against the running server by a test.
  static let document = #"""
    {
      "openapi": "3.1.0",
      "info": {
        "title": "musickit-token-server",
        "version": "1",
        "summary": "Developer tokens for Apple Music, and Apple's catalog without one",
        "description": "Keeps the MusicKit private key on the server, mints short-lived ES256 developer tokens, and fetches from Apple's catalog with one that callers never see. Below /v1/, paths, parameters and answers are those of the Apple Music API; the paths here, and the storefronts, are a selection: /v1/catalog, /v1/storefronts, /v1/language/{storefront}/tag and, where it is allowed, /v1/me."
      },
      "security": [ {}, { "bearer": [] }, { "apiKey": [] } ],
      "paths": {
        "/token": {
          "get": {
            "operationId": "getToken",
            "summary": "A developer token",
            "parameters": [
              { "name": "ttl", "in": "query", "description": "Lifetime in seconds. The server may have a lower maximum.",
                "schema": { "$ref": "#/components/schemas/Lifetime" } },
              { "name": "origin", "in": "query", "description": "A web origin that the token is bound to. May be repeated.",
                "style": "form", "explode": true,
                "schema": { "type": "array", "maxItems": 32, "items": { "$ref": "#/components/schemas/Origin" } } }
            ],
            "responses": { "$ref": "#/components/x-token-responses" }
          },
          "post": {
            "operationId": "postToken",
            "summary": "A developer token; for pages on this server's own origin, whose GET bears no Origin",
            "requestBody": {
              "required": false,
              "content": { "application/json": { "schema": { "$ref": "#/components/schemas/TokenRequest" } } }
            },
            "responses": { "$ref": "#/components/x-token-responses" }
          }
        },
        "/v1/catalog/{storefront}/{type}/{id}": {
          "get": {
            "operationId": "getResource",
            "summary": "A resource of the catalog",
            "parameters": [
              { "$ref": "#/components/parameters/Storefront" },
              { "$ref": "#/components/parameters/Type" },
              { "$ref": "#/components/parameters/ID" }
            ],
            "responses": { "200": { "$ref": "#/components/responses/Resource" },
              "404": { "$ref": "#/components/responses/Errors" }, "405": { "$ref": "#/components/responses/Errors" },
              "429": { "$ref": "#/components/responses/Errors" }, "502": { "$ref": "#/components/responses/Errors" },
              "504": { "$ref": "#/components/responses/Errors" }, "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/v1/catalog/{storefront}/{type}/{id}/{relationship}": {
          "get": {
            "operationId": "getRelated",
            "summary": "What a resource is related to, page by page",
            "parameters": [
              { "$ref": "#/components/parameters/Storefront" },
              { "$ref": "#/components/parameters/Type" },
              { "$ref": "#/components/parameters/ID" },
              { "$ref": "#/components/parameters/Relationship" }
            ],
            "responses": { "200": { "$ref": "#/components/responses/Resource" },
              "404": { "$ref": "#/components/responses/Errors" }, "405": { "$ref": "#/components/responses/Errors" },
              "429": { "$ref": "#/components/responses/Errors" }, "502": { "$ref": "#/components/responses/Errors" },
              "504": { "$ref": "#/components/responses/Errors" }, "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/v1/catalog/{storefront}/genres": {
          "get": {
            "operationId": "getGenres",
            "summary": "The genres of a storefront; lists of other types want ids or a filter",
            "parameters": [
              { "$ref": "#/components/parameters/Storefront" }
            ],
            "responses": { "200": { "$ref": "#/components/responses/Resource" },
              "404": { "$ref": "#/components/responses/Errors" }, "405": { "$ref": "#/components/responses/Errors" },
              "429": { "$ref": "#/components/responses/Errors" }, "502": { "$ref": "#/components/responses/Errors" },
              "504": { "$ref": "#/components/responses/Errors" }, "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/v1/storefronts": {
          "get": {
            "operationId": "getStorefronts",
            "summary": "The storefronts",
            "responses": { "200": { "$ref": "#/components/responses/Resource" },
              "404": { "$ref": "#/components/responses/Errors" }, "405": { "$ref": "#/components/responses/Errors" },
              "429": { "$ref": "#/components/responses/Errors" }, "502": { "$ref": "#/components/responses/Errors" },
              "504": { "$ref": "#/components/responses/Errors" }, "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/v1/storefronts/{id}": {
          "get": {
            "operationId": "getStorefront",
            "summary": "A storefront",
            "parameters": [
              { "$ref": "#/components/parameters/StorefrontID" }
            ],
            "responses": { "200": { "$ref": "#/components/responses/Resource" },
              "404": { "$ref": "#/components/responses/Errors" }, "405": { "$ref": "#/components/responses/Errors" },
              "429": { "$ref": "#/components/responses/Errors" }, "502": { "$ref": "#/components/responses/Errors" },
              "504": { "$ref": "#/components/responses/Errors" }, "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/v1/test": {
          "get": {
            "operationId": "test",
            "summary": "Whether Apple takes the server's developer token",
            "responses": { "200": { "$ref": "#/components/responses/Accepted" },
              "404": { "$ref": "#/components/responses/Errors" }, "405": { "$ref": "#/components/responses/Errors" },
              "429": { "$ref": "#/components/responses/Errors" }, "502": { "$ref": "#/components/responses/Errors" },
              "504": { "$ref": "#/components/responses/Errors" }, "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/healthz": {
          "get": {
            "operationId": "getHealth",
            "summary": "Whether the process can answer",
            "responses": { "200": { "$ref": "#/components/responses/Status" },
              "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/readyz": {
          "get": {
            "operationId": "getReadiness",
            "summary": "Whether the server can do its job now",
            "responses": { "200": { "$ref": "#/components/responses/Status" },
              "503": { "$ref": "#/components/responses/Status" }, "default": { "$ref": "#/components/responses/Errors" } }
          }
        },
        "/openapi.json": {
          "get": {
            "operationId": "getOpenAPI",
            "summary": "This document",
            "responses": {
              "200": { "description": "This document", "content": { "application/json": { "schema": { "type": "object" } } } },
              "default": { "$ref": "#/components/responses/Errors" } }
          }
        }
      },
      "components": {
        "securitySchemes": {
          "bearer": { "type": "http", "scheme": "bearer",
            "description": "An API key, or a JSON Web Token of an identity provider that the server knows. Or a TLS client certificate; web pages are known by their Origin." },
          "apiKey": { "type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key." }
        },
        "parameters": {
          "Storefront": { "name": "storefront", "in": "path", "required": true, "description": "A storefront's code.",
            "schema": { "type": "string", "enum": ["us", "gb", "de", "fr", "jp"] } },
          "Type": { "name": "type", "in": "path", "required": true, "description": "A type of resource.",
            "schema": { "type": "string", "enum": ["albums", "artists", "genres", "playlists", "songs"] } },
          "ID": { "name": "id", "in": "path", "required": true, "description": "A resource's identifier.",
            "schema": { "type": "string", "pattern": "^[0-9]{1,12}$", "examples": ["1200868601"] } },
          "Relationship": { "name": "relationship", "in": "path", "required": true,
            "description": "A relationship of that type of resource.",
            "schema": { "type": "string", "enum": ["albums", "artists", "genres", "tracks"] } },
          "StorefrontID": { "name": "id", "in": "path", "required": true, "description": "A storefront's code.",
            "schema": { "type": "string", "enum": ["us", "gb", "de", "fr", "jp"] } }
        },
        "schemas": {
          "Lifetime": { "type": "integer", "minimum": 60, "maximum": 15777000, "examples": [3600] },
          "Origin": { "type": "string", "pattern": "^https?://([a-z0-9]{1,30}\\.){0,3}[a-z][a-z0-9]{0,29}(:[1-9][0-9]{0,3})?$",
            "examples": ["https://app.example.com"] },
          "TokenRequest": {
            "type": "object", "additionalProperties": false,
            "properties": {
              "ttl": { "$ref": "#/components/schemas/Lifetime" },
              "origin": { "oneOf": [ { "$ref": "#/components/schemas/Origin" },
                { "type": "array", "maxItems": 32, "items": { "$ref": "#/components/schemas/Origin" } } ] }
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
          "Errors": {
            "type": "object", "required": ["errors"],
            "properties": { "errors": { "type": "array", "minItems": 1, "items": {
              "type": "object", "required": ["id", "status", "code", "title", "detail"],
              "properties": { "id": { "type": "string" }, "status": { "type": "string" }, "code": { "type": "string" },
                "title": { "type": "string" }, "detail": { "type": "string" } } } } }
          }
        },
        "responses": {
          "Token": {
            "description": "The token, as JSON or bare as the request's Accept prefers",
            "content": {
              "application/json": { "schema": { "$ref": "#/components/schemas/Token" } },
              "application/jwt": { "schema": { "type": "string" } },
              "text/plain": { "schema": { "type": "string" } }
            }
          },
          "Resource": {
            "description": "Apple's answer, fresh or from the cache",
            "content": { "application/json": { "schema": { "type": "object" } } }
          },
          "Accepted": { "description": "It does" },
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
      }
    }

    """#.replacing(
      #"{ "$ref": "\#u{23}/components/x-token-responses" }"#, with: tokenResponses)

  private static let tokenResponses = #"""
    { "200": { "$ref": "#/components/responses/Token" }, "400": { "$ref": "#/components/responses/Errors" },
              "401": { "$ref": "#/components/responses/Errors" }, "403": { "$ref": "#/components/responses/Errors" },
              "405": { "$ref": "#/components/responses/Errors" }, "413": { "$ref": "#/components/responses/Errors" },
              "429": { "$ref": "#/components/responses/Errors" }, "default": { "$ref": "#/components/responses/Errors" } }
    """#
}
