#if DEBUG
  import Access
  import Bytes
  import DeveloperToken
  import HTTPMessages
  import JSON

  @testable import TokenServer

  extension Parser {
    /// JSON as such, `POST /token`, and key sets.
    static var json: [Parser] {
      [
        Parser("json", read),
        Parser("json-string", "{\"a\":\"", "\",\"a\":0}", read),
        Parser("json-name", "{\"", "\":0,\"a\":0}", read),
        Parser("json-array", "{\"a\":[", "0]}", read),
        Parser("json-members", "{", "\"b\":0}", read),
        Parser("token-query", { _ = try? TokenParameters(query: $0.span, body: []) }),
        Parser("token-query-origin", "origin=", "", { _ = try? TokenParameters(query: $0.span, body: []) }),
        Parser("token-origin", "{\"origin\":\"", "\"}", parameters),
        Parser("token-origins", "{\"origin\":[", "0]}", parameters),
        Parser("token-name", "{\"", "\":0}", parameters),
        Parser("token-members", "{", "\"b\":0}", parameters),
        Parser("key-set-kid", "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"", "\"}]}", { _ = try? JSONWebKeySet($0) }),
        Parser("key-set-kty", "{\"keys\":[{\"kty\":\"", "\"}]}", { _ = try? JSONWebKeySet($0) }),
        Parser("key-set-alg", "{\"keys\":[{\"alg\":\"", "\"}]}", { _ = try? JSONWebKeySet($0) }),
        Parser("key-set-name", "{\"", "\":[]}", { _ = try? JSONWebKeySet($0) }),
        Parser("discovery-issuer", "{\"issuer\":\"", "\"}", metadata),
        Parser("discovery-name", "{\"", "\":0}", metadata), Parser("discovery-members", "{", "\"b\":0}", metadata),
        Parser("key-set-keys", "{\"keys\":[", "0]}", { _ = try? JSONWebKeySet($0) }),
      ]
    }

    private static func read(_ bytes: [UInt8]) { _ = JSONReader.read(bytes)?.repeatedNames }

    private static func metadata(_ bytes: [UInt8]) { _ = try? ProviderMetadata(bytes, issuer: "https://id.example") }

    private static func parameters(_ bytes: [UInt8]) {
      guard let parameters = try? TokenParameters(query: .init(), body: bytes) else { return }
      for origin in parameters.origins { _ = try? Origin(origin.text) }
    }
  }
#endif
