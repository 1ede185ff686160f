import Bytes
public import HTTPMessages
import HTTPTypes

/// The access rules of all clients, compiled once and immutable. Every request has a reference to them. Access control
/// has two steps: `identify` returns the caller, or the reason why it is unknown, and the ``Principal`` states what
/// that caller may have. The policy allows only what the configuration states.
public final class AccessPolicy: Sendable {
  /// The clients that the server can identify, in the order of the configuration.
  public let clients: [Client]
  /// The rights of a caller that sends no credential and matches no client's origin; nil for none.
  public let anonymous: Client?

  let keys: APIKeyring
  let issuers: [ByteString: [Int]]
  /// One issuer for each of those that differ only by an ``IdentifierDifference``, by what they have in common.
  let similarIssuers: [ByteString: ByteString]
  let certificates: [SubjectName: Int]
  /// The origins that identify a client.
  private let knownOrigins: OriginTable
  /// The listed origins of all clients, and the origins of clients without a list.
  private let listedOrigins: OriginTable
  private let otherOrigins: [AllowedOrigins]
  /// Every configured origin by its serialization, because a lookup is ten times as fast as parsing.
  private let written: [String: Origin]

  /// Compiles a policy. The first of two clients gets a key, certificate name or origin that the settings must not
  /// repeat. `anonymous` has the rights of callers without credentials, and the ID ``Client/anonymousID``.
  public init(clients: [Client], anonymous: Client?) {
    var keys = APIKeyring()
    var issuers: [ByteString: [Int]] = [:]
    var certificates: [SubjectName: Int] = [:]
    var known = OriginTable()
    for (index, client) in clients.enumerated() {
      switch client.credential {
      case .apiKeys(let digests): for digest in digests { _ = keys.add(digest, for: index) }
      case .jwt(let rules, _): issuers[ByteString(rules.issuer), default: []].append(index)
      case .certificate(let names): for name in names where certificates[name] == nil { certificates[name] = index }
      case .origin: known.add(client.origins.patterns, of: index)
      case .anonymous: continue
      }
    }
    self.clients = clients
    self.anonymous = anonymous
    (self.keys, self.issuers, self.certificates, knownOrigins) = (keys, issuers, certificates, known)
    knowsCertificates = !certificates.isEmpty
    similarIssuers = Dictionary(issuers.keys.sorted().map { (IdentifierDifference.core($0), $0) }) { first, _ in first }
    let everybody = clients + [anonymous].compactMap { $0 }
    catalogIsPublic = anonymous.map { $0.catalog && !$0.origins.isRestricted && $0.storefronts == nil } ?? false
    catalogIsShared = everybody.count { $0.catalog || $0.me } > 1
    let readers = everybody.filter(\.mayHaveAnything)
    listedOrigins = readers.reduce(into: OriginTable()) { $0.add($1.origins.patterns, of: 0) }
    otherOrigins = readers.map(\.origins).filter { !$0.isList }
    written = everybody.reduce(into: [:]) { written, client in
      for case .exact(let origin) in client.origins.patterns { written[origin.description] = origin }
    }
  }

  /// Whether any client has a TLS client certificate as its credential. Otherwise a certificate is no credential.
  public let knowsCertificates: Bool
  /// Whether any client is identified by its origin alone, as browsers send it.
  var knowsOrigins: Bool { !knownOrigins.isEmpty }

  func client(of origin: Origin) -> Client? { knownOrigins[origin].map { clients[$0] } }
  /// Returns the configured origin with this serialization, or nil.
  public func writtenOrigin(_ serialization: String) -> Origin? { written.isEmpty ? nil : written[serialization] }

  /// Whether pages of this origin may read responses: whether any client may use it (the Fetch standard, §3.3).
  public func mayRead(_ origin: Origin) -> Bool {
    listedOrigins[origin] != nil || otherOrigins.contains { $0.allows(origin) }
  }

  /// Whether any page or program may have the catalog without a credential.
  public let catalogIsPublic: Bool

  /// Whether several clients share what Apple allows the team, `/v1/me` included.
  public let catalogIsShared: Bool

  /// The sources of the keys of all identity providers.
  public var keySources: Set<KeySetSource> {
    Set(clients.compactMap { if case .jwt(_, let source) = $0.credential { source } else { nil } })
  }
}

/// Listed origins, each with the index of the first client that has it.
private struct OriginTable: Sendable {
  private var exact: [Origin: Int] = [:]
  private var patterns: [String: Int] = [:]

  var isEmpty: Bool { exact.isEmpty && patterns.isEmpty }

  /// Returns the client of an origin. An exact origin takes precedence over a pattern with a star.
  subscript(origin: Origin) -> Int? {
    if isEmpty { return nil }
    return exact[origin] ?? (patterns.isEmpty ? nil : OriginPattern.pattern(of: origin).flatMap { patterns[$0] })
  }

  mutating func add(_ origins: [OriginPattern], of client: Int) {
    for origin in origins {
      switch origin {
      case .exact(let origin): if exact[origin] == nil { exact[origin] = client }
      case .anyLabel(let pattern): if patterns[pattern] == nil { patterns[pattern] = client }
      }
    }
  }
}

/// The denials of a request without a credential, or with an unknown one.
extension AccessPolicy {
  /// The denial of a request without credentials, with every kind of credential that the server accepts.
  var missingCredentials: Denial {
    let ways = ways
    guard !ways.isEmpty else { return Self.noOrigin(client: nil) }
    return Denial(
      .missingCredentials, "no_credential",
      "The request has no credentials. Send \(ways.joined(separator: ", or ")).",
      hint: knowsOrigins ? Self.sameOrigin : nil)
  }

  private var ways: [String] {
    var ways: [String] = []
    if keys.count > 0 { ways.append("an API key as Authorization: Bearer KEY") }
    if !issuers.isEmpty { ways.append("your identity provider's token as Authorization: Bearer TOKEN") }
    if !certificates.isEmpty { ways.append("a TLS client certificate") }
    return ways
  }

  /// Returns advice if a credential has the shape of Apple's developer tokens, which callers would send to Apple.
  func advice(onDeveloperToken jwt: JWT) -> String? {
    // The issuer of a developer token is a team ID: ten characters of A–Z and 0–9.
    guard let issuer = jwt.issuer?.bytes, issuer.count == 10,
      issuer.allSatisfy({ $0.decimalDigit != nil || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) })
    else { return nil }
    let ways = ways
    let instead = ways.isEmpty ? "" : " For this server, send \(ways.joined(separator: ", or "))."
    return """
      The credential is a developer token for Apple Music, which this server does not accept. Leave it out: this \
      server adds its own token to requests to Apple.\(instead)
      """
  }

  static func noOrigin(client: Client?) -> Denial {
    Denial(
      .missingCredentials, "no_origin",
      "This server accepts requests from listed web origins only, and the request has no Origin.", hint: sameOrigin,
      client: client?.id)
  }

  /// The usual cause of a missing origin, for a page that requests a token.
  private static let sameOrigin =
    "Browsers send no Origin with a same-origin GET: a page on this server's own origin gets its token by POST /token."

  /// Returns the denial of an unknown key, with specific advice for the usual mistakes.
  func unknownKey(_ key: ArraySlice<UInt8>, isBearer: Bool) -> Denial {
    if APIKeyForm(of: key.span) == .mistyped {
      return Denial(
        .invalidCredentials, "mistyped_api_key", "The API key is cut off or mistyped: its checksum is wrong.")
    }
    if Self.looksLikeJWT(key), let jwt = try? JWT(compact: key.span), let advice = advice(onDeveloperToken: jwt) {
      return Denial(.invalidCredentials, "unknown_api_key", advice)
    }
    return Denial(.invalidCredentials, "unknown_api_key", slip(in: key, isBearer: isBearer))
  }

  private func slip(in key: ArraySlice<UInt8>, isBearer: Bool) -> String {
    if key.isEmpty { return "X-API-Key is empty." }
    if !isBearer, !issuers.isEmpty, Self.looksLikeJWT(key) {
      return "The value of X-API-Key looks like a JWT. Send a JWT as Authorization: Bearer."
    }
    guard keys.count > 0 else {
      return issuers.isEmpty
        ? "This server accepts no API keys and no bearer tokens. Leave \(isBearer ? "Authorization" : "X-API-Key") out."
        : "The credential is not a JWT, and this server accepts no API keys."
    }
    if key.starts(with: "Bearer ".utf8) {
      return isBearer
        ? "Authorization has the word Bearer twice. Write it once." : "X-API-Key takes the key alone, without Bearer."
    }
    if key.first == UInt8(ascii: "\"") || key.first == UInt8(ascii: "'") {
      return "The API key is in quotation marks. Send it without them."
    }
    if key.count == 64, key.allSatisfy({ $0.hexadecimalDigit != nil }) {
      return "The credential looks like the SHA-256 of an API key. Send the key itself."
    }
    return "This server does not know the API key: it may be a replaced key, or the key of another server."
  }

  /// Whether the text has the three parts of a compact serialization (RFC 7515 §7.1).
  static func looksLikeJWT(_ text: ArraySlice<UInt8>) -> Bool { text.count { $0 == UInt8(ascii: ".") } == 2 }
}

/// The reason why the server refuses a request: the response, and the words for the audit log and the metrics.
public struct Denial: Error, Sendable {
  /// The response. It contains no part of a credential.
  public var response: ErrorResponse
  /// A word for the audit log and the metrics, from a small fixed set.
  public var reason: StaticString
  /// A further sentence for a caller that requested a token.
  public var hint: String?
  /// The client that was refused; nil if the client is unknown.
  public var client: String?
  /// The refused origin, or `null`; nil if the reason is another, or the field held no origin.
  public var origin: String?
  /// Whether the credential may be a guess, and so counts as a failed attempt. A token that has just expired is not a
  /// guess: an app renews the token after a 401, but waits after a 429.
  public var isGuess = false
  /// The number of failed attempts that a guess counts as: one for each signature that the server verified in vain.
  public var attempts = 1

  /// Creates a denial from a response that another check has made.
  public init(_ response: ErrorResponse, _ reason: StaticString) { (self.response, self.reason) = (response, reason) }

  /// Creates a denial. By default, invalid credentials count as a guess.
  ///
  /// - Parameters:
  ///   - detail: What happened, why, and what to do, for the caller.
  ///   - retryAfter: The seconds after which the caller may send the request again.
  ///   - endsConnection: Whether the server must end the connection.
  ///   - shortage: What the server lacks; nil if the caller can correct the cause.
  public init(
    _ code: ErrorCode, _ reason: StaticString, _ detail: String, retryAfter: Int? = nil, hint: String? = nil,
    client: String? = nil, origin: String? = nil, endsConnection: Bool = false, isGuess: Bool? = nil,
    shortage: Shortage? = nil
  ) {
    response = ErrorResponse(
      code, detail, fields: Self.challenge(code), retryAfter: retryAfter, end: endsConnection ? .connection : .nothing,
      shortage: shortage)
    self.reason = reason
    (self.hint, self.client, self.origin) = (hint, client, origin)
    self.isGuess = isGuess ?? (code == .invalidCredentials)
  }

  /// Returns the challenge of a 401 (RFC 9110 §11.6.1, RFC 6750 §3.1).
  private static func challenge(_ code: ErrorCode) -> HTTPFields {
    switch code {
    case .missingCredentials: [.wwwAuthenticate: "Bearer realm=\"musickit-token-server\""]
    case .invalidCredentials: [.wwwAuthenticate: "Bearer realm=\"musickit-token-server\", error=\"invalid_token\""]
    default: [:]
    }
  }
}
