import DeveloperToken
import HTTPMessages
import Testing

@testable import Access

/// Callers × requests × outcomes.
@Suite("The policy")
struct PolicyTableTests {
  /// One row: the caller, the request, and the word for the outcome.
  struct Row: Sendable, CustomTestStringConvertible {
    let who: String
    let what: String
    let outcome: String

    var testDescription: String { "\(who) asks for \(what): \(outcome)" }

    init(_ who: String, _ what: String, _ outcome: String) {
      (self.who, self.what, self.outcome) = (who, what, outcome)
    }
  }

  @Test(
    "allows each caller what its client is allowed, and nothing else",
    arguments: [
      // An API key: tokens without origin, the catalog of its storefronts.
      Row("key android", "token", "token of android"),
      Row("bearer android", "token", "token of android"),
      Row("old key android", "token", "token of android"),
      Row("key android", "token ttl=3600", "token of android ttl=3600"),
      Row("key android", "token ttl=7201", "ttl_too_long"),
      Row("key android", "token origin=https://app.example.com", "origin_not_allowed"),
      Row("key android", "catalog us", "catalog of android"),
      Row("key android", "catalog GB", "catalog of android"),
      Row("key android", "catalog de", "storefront_not_permitted"),
      Row("key android", "catalog", "catalog of android"),
      Row("key android", "me", "no_me"),
      Row("key android from https://evil.example", "token", "token of android"),
      // The origin alone.
      Row("from https://app.example.com", "token", "token of web for https://app.example.com"),
      Row("from https://pr-1.preview.example.com", "token", "token of web for https://pr-1.preview.example.com"),
      Row(
        "from https://app.example.com", "token origin=https://app.example.com",
        "token of web for https://app.example.com"),
      Row("from https://app.example.com", "token origin=https://pr-1.preview.example.com", "origin_not_own"),
      Row("from https://app.example.com", "token origin=https://evil.example", "origin_not_allowed"),
      Row("from https://app.example.com", "catalog us", "no_catalog"),
      Row("from https://a.b.preview.example.com", "token", "origin_not_allowed"),
      Row("from https://evil.example", "token", "origin_not_allowed"),
      Row("from null", "token", "origin_not_allowed"),
      // Both.
      Row("key studio from https://studio.example.com", "token", "token of studio for https://studio.example.com"),
      Row(
        "key studio from https://studio.example.com", "token origin=https://beta.example.com",
        "token of studio for https://beta.example.com"),
      Row("key studio from https://app.example.com", "token", "origin_not_allowed"),
      Row("key studio from null", "token", "origin_not_allowed"),
      Row("key studio", "token", "no_origin"),
      Row("from https://studio.example.com", "token", "no_credential"),
      // A certificate, for the catalog only.
      Row("certificate spiffe://example.com/partner", "catalog us", "catalog of partner"),
      Row("certificate spiffe://example.com/partner", "me", "me of partner"),
      Row("certificate spiffe://example.com/partner", "token", "no_token"),
      Row("certificate spiffe://example.com/other", "catalog us", "unknown_certificate"),
      Row("certificate", "catalog us", "unknown_certificate"),
      Row(
        "certificate spiffe://example.com/partner+spiffe://example.com/printer", "catalog us", "ambiguous_certificate"),
      Row("certificate spiffe://example.com/partner+spiffe://example.com/x", "catalog us", "catalog of partner"),
      // An invalid credential is refused, even if the origin or no credential would be sufficient.
      Row("key nobody", "token", "unknown_api_key"),
      Row("key mistyped", "token", "mistyped_api_key"),
      Row("bearer nobody", "token", "unknown_api_key"),
      Row("key nobody from https://app.example.com", "token", "unknown_api_key"),
      Row("bearer a.b.c", "token", "unknown_api_key"),
      Row("several", "token", "malformed_credential"),
      Row("several from https://app.example.com", "token", "malformed_credential"),
      // Nothing.
      Row("nobody", "token", "no_credential"),
      Row("nobody", "catalog us", "no_credential"),
      Row("nobody", "me", "no_credential"),
    ])
  func table(_ row: Row) throws {
    #expect(try Self.outcome(of: row, Self.policy(anonymous: nil)) == row.outcome)
  }

  @Test(
    "allows anonymous callers what they are allowed, and callers with an invalid credential nothing",
    arguments: [
      Row("nobody", "catalog us", "catalog of anonymous"),
      Row("nobody", "catalog de", "storefront_not_permitted"),
      Row("nobody", "token", "no_token"),
      Row("nobody", "me", "no_me"),
      Row("key nobody", "catalog us", "unknown_api_key"),
      Row("several", "catalog us", "malformed_credential"),
      Row("from https://evil.example", "catalog us", "origin_not_allowed"),
      Row("from https://app.example.com", "token", "token of web for https://app.example.com"),
      Row("key android", "token", "token of android"),
    ])
  func anonymous(_ row: Row) throws {
    let anonymous = Client(
      id: Client.anonymousID, credential: .anonymous, token: false, catalog: true, storefronts: ["us"])
    #expect(try Self.outcome(of: row, Self.policy(anonymous: anonymous)) == row.outcome)
  }

  @Test(
    "binds anonymous callers to their allowed origins",
    arguments: [
      Row("from https://open.example", "token", "token of anonymous for https://open.example"),
      Row("from https://open.example", "token origin=https://x.open.example", "origin_not_own"),
      Row("from https://evil.example", "token", "origin_not_allowed"),
      Row("nobody", "token", "no_origin"),
      Row("nobody", "token origin=https://open.example", "no_origin"),
      Row("nobody", "token origin=https://evil.example", "origin_not_allowed"),
      Row("nobody", "catalog us", "no_origin"),
    ])
  func anonymousOrigins(_ row: Row) throws {
    let anonymous = Client(
      id: Client.anonymousID, credential: .anonymous,
      origins: .only([try OriginPattern("https://open.example"), try OriginPattern("https://*.open.example")]),
      catalog: true)
    #expect(try Self.outcome(of: row, Self.policy(anonymous: anonymous)) == row.outcome)
  }

  @Test(
    "without credentials ignores credentials",
    arguments: [
      Row("key nobody", "token", "token of anonymous"),
      Row("bearer a.b.c", "token", "token of anonymous"),
      Row("from https://any.example", "token", "token of anonymous for https://any.example"),
      Row("nobody", "token origin=https://any.example", "token of anonymous for https://any.example"),
    ])
  func everybody(_ row: Row) throws {
    let everybody = Client(id: Client.anonymousID, credential: .anonymous, origins: .any)
    #expect(try Self.outcome(of: row, AccessPolicy(clients: [], anonymous: everybody)) == row.outcome)
  }

  @Test("lets browsers read responses only for origins that some client may use")
  func crossOrigin() throws {
    let policy = try Self.policy(anonymous: nil)
    for origin in ["https://app.example.com", "https://x.preview.example.com", "https://studio.example.com"] {
      #expect(policy.mayRead(try Origin(origin)), "\(origin)")
    }
    for origin in ["https://evil.example", "https://preview.example.com", "http://app.example.com"] {
      #expect(!policy.mayRead(try Origin(origin)), "\(origin)")
    }
  }

  @Test("gives a hint to a page that sent no Origin")
  func hint() throws {
    guard
      case .denied(let denial) = try Self.policy(anonymous: nil).identify(
        PresentedCredentials(), now: 0, keys: { _ in nil })
    else {
      Issue.record("not denied")
      return
    }
    #expect(denial.response.code == .missingCredentials)
    #expect(denial.hint?.contains("POST /token") == true)
    #expect(denial.response.detail.contains("Authorization: Bearer"))
  }

  @Test("explains to a caller with an Apple developer token which credential to send", arguments: [false, true])
  func appleToken(isBearer: Bool) throws {
    let token = Self.developerToken
    let credential: PresentedCredentials.Credential = isBearer ? .bearer(token) : .apiKey(token)
    let identification = try Self.policy(anonymous: nil).identify(
      PresentedCredentials(credential: credential), now: 0, keys: { _ in nil })
    guard case .denied(let denial) = identification else {
      Issue.record("not denied")
      return
    }
    #expect(denial.reason.description == "unknown_api_key")
    #expect(
      denial.response.detail == """
        The credential is a developer token for Apple Music, which this server does not accept. Leave it out: this \
        server adds its own token to requests to Apple. For this server, send an API key as Authorization: Bearer KEY, \
        or a TLS client certificate.
        """)
  }

  /// {"alg":"ES256","kid":"ABC123DEFG"} and {"iss":"DEF123GHIJ","iat":1,"exp":2}, with a signature of zeros.
  private static let developerToken: ArraySlice<UInt8> = Array(
    ("eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ.eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxLCJleHAiOjJ9."
      + String(repeating: "A", count: 86)).utf8)[...]

  @Test("prefers an exact origin to a pattern")
  func mostSpecific() throws {
    let policy = AccessPolicy(
      clients: [
        Client(id: "all", credential: .origin, origins: .only([try OriginPattern("https://*.example.com")])),
        Client(id: "one", credential: .origin, origins: .only([try OriginPattern("https://app.example.com")])),
      ], anonymous: nil)
    #expect(policy.client(of: try Origin("https://app.example.com"))?.id == "one")
    #expect(policy.client(of: try Origin("https://x.example.com"))?.id == "all")
  }

  @Test(
    "lets shared caches store the catalog only if every caller may read the catalog",
    arguments: [
      (Client(id: "anonymous", credential: .anonymous, origins: .any, catalog: true), true),
      (Client(id: "anonymous", credential: .anonymous, catalog: true), true),
      (Client(id: "anonymous", credential: .anonymous, catalog: true, storefronts: ["us"]), false),
      (Client(id: "anonymous", credential: .anonymous), false),
      (nil, false),
    ])
  func publicCatalog(_ anonymous: Client?, _ isPublic: Bool) {
    #expect(AccessPolicy(clients: [], anonymous: anonymous).catalogIsPublic == isPublic)
  }

  // MARK: The policy of the tests

  private static let keys = ["android": "android-key", "old android": "android-old-key", "studio": "studio-key"]

  private static func policy(anonymous: Client?) throws -> AccessPolicy {
    func digest(_ name: String) throws -> APIKeyDigest {
      try APIKeyDigest(of: Array((keys[name] ?? "").utf8).span)
    }
    return AccessPolicy(
      clients: [
        Client(
          id: "android", credential: .apiKeys([try digest("android"), try digest("old android")]), catalog: true,
          ttl: 7200, storefronts: ["us", "gb"]),
        Client(
          id: "web", credential: .origin,
          origins: .only([
            try OriginPattern("https://app.example.com"), try OriginPattern("https://*.preview.example.com"),
          ])),
        Client(
          id: "studio", credential: .apiKeys([try digest("studio")]),
          origins: .only([
            try OriginPattern("https://studio.example.com"), try OriginPattern("https://beta.example.com"),
          ])),
        Client(
          id: "partner", credential: .certificate([.uri("spiffe://example.com/partner")]), token: false, catalog: true,
          me: true),
        Client(
          id: "printer", credential: .certificate([.uri("spiffe://example.com/printer")]), token: false, catalog: true),
      ], anonymous: anonymous)
  }

  private static func presented(_ who: String) throws -> PresentedCredentials {
    var presented = PresentedCredentials()
    var words = who.split(separator: " ").map(String.init)[...]
    if let from = words.firstIndex(of: "from"), let text = words[(from + 1)...].first {
      presented.origin = (try? Origin(text)).map { .present($0) } ?? .unusable(text)
      words = words[..<from]
    }
    let isOld = words.first == "old"
    if isOld { words = words.dropFirst() }
    let name = (isOld ? "old " : "") + (words.dropFirst().first ?? "")
    let key = Array((keys[name] ?? (name == "mistyped" ? "mkts_cut" : name)).utf8)[...]
    switch words.first {
    case "key": presented.credential = .apiKey(key)
    case "bearer": presented.credential = .bearer(key)
    case "certificate":
      presented.credential = .certificate(name.split(separator: "+").compactMap { SubjectName(String($0)) })
    case "several": presented.credential = .malformed("There are several.")
    default: break
    }
    return presented
  }

  private static func outcome(of row: Row, _ policy: AccessPolicy) throws -> String {
    switch policy.identify(try presented(row.who), now: 1_795_000_000, keys: { _ in nil }) {
    case .denied(let denial): return "\(denial.reason)"
    case .keysWanted: return "keys wanted"
    case .known(let caller): return try outcome(of: row.what, caller)
    }
  }

  private static func outcome(of what: String, _ caller: Principal) throws -> String {
    let words = what.split(separator: " ").map(String.init)
    let argument = words.dropFirst().first
    do throws(Denial) {
      switch words[0] {
      case "catalog": try caller.mayHaveCatalog(storefront: argument)
      case "me": try caller.mayUseMe()
      default:
        let ttl = argument.flatMap { $0.hasPrefix("ttl=") ? Int($0.dropFirst(4)) : nil }
        let origin = argument.flatMap { $0.hasPrefix("origin=") ? try? Origin(String($0.dropFirst(7))) : nil }
        let grant = try caller.token(ttl: ttl, origins: origin.map { [$0] } ?? [])
        let origins = grant.origins.map { " for \($0)" }.joined()
        return "token of \(caller.client.id)\(ttl == nil ? "" : " ttl=\(grant.ttl ?? 0)")\(origins)"
      }
      return "\(words[0]) of \(caller.client.id)"
    } catch {
      return "\(error.reason)"
    }
  }
}
