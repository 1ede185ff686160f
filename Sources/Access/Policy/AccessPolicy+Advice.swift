/// What callers are told who send nothing, or nothing that is known.
extension AccessPolicy {
  /// For who sends nothing: all that would do.
  var missingCredentials: Denial {
    var ways: [String] = []
    if keys.count > 0 { ways.append("an API key as Authorization: Bearer KEY") }
    if !issuers.isEmpty { ways.append("your identity provider's token as Authorization: Bearer TOKEN") }
    if !certificates.isEmpty { ways.append("a TLS client certificate") }
    guard !ways.isEmpty else { return Self.noOrigin(client: nil) }
    return Denial(
      .missingCredentials, "no_credential",
      "No credentials were provided. Send \(ways.joined(separator: ", or ")).",
      hint: knowsOrigins ? Self.sameOrigin : nil)
  }

  /// For who sends no origin, and needs one.
  static func noOrigin(client: Client?) -> Denial {
    Denial(
      .missingCredentials, "no_origin",
      "This server is for the web origins that it lists, and the request names none.", hint: sameOrigin,
      client: client?.id)
  }

  /// The usual cause for a page that asks for a token.
  private static let sameOrigin =
    "Browsers send no Origin with a same-origin GET: a page on this server's own origin gets its token by POST /token."

  /// For who sends what is no key of this server's, with the usual slips told apart.
  func unknownKey(_ key: ArraySlice<UInt8>, isBearer: Bool) -> Denial {
    if APIKeyForm(of: key.span) == .mistyped {
      return Denial(
        .invalidCredentials, "mistyped_api_key", "The API key is cut off or mistyped: its checksum is wrong.")
    }
    return Denial(.invalidCredentials, "unknown_api_key", slip(in: key, isBearer: isBearer))
  }

  private func slip(in key: ArraySlice<UInt8>, isBearer: Bool) -> String {
    if key.isEmpty { return "X-API-Key has nothing in it." }
    if !isBearer, !issuers.isEmpty, Self.looksLikeJWT(key) {
      return "X-API-Key holds a JWT, as it looks; send it as Authorization: Bearer."
    }
    guard keys.count > 0 else {
      return issuers.isEmpty
        ? "This server knows no API keys and no bearer tokens; leave \(isBearer ? "Authorization" : "X-API-Key") out."
        : "What was sent is no JWT, and this server knows no API keys."
    }
    if key.starts(with: "Bearer ".utf8) { return "X-API-Key takes the key alone, without Bearer." }
    if key.first == UInt8(ascii: "\"") || key.first == UInt8(ascii: "'") {
      return "The API key stands in quotation marks; send it without."
    }
    if key.count == 64, key.allSatisfy({ Self.hexadecimal.contains($0) }) {
      return "What was sent looks like the SHA-256 of an API key; send the key itself."
    }
    return "The API key is not one of this server's: it may have been replaced, or be another server's."
  }

  /// Whether it has the three parts of a compact serialization (RFC 7515 §7.1).
  static func looksLikeJWT(_ text: ArraySlice<UInt8>) -> Bool {
    text.count { $0 == UInt8(ascii: ".") } == 2
  }

  private static let hexadecimal = Set("0123456789abcdefABCDEF".utf8)
}
