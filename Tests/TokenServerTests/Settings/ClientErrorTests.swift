import Testing

@testable import Access
@testable import Commands
@testable import ServerSettings
@testable import TokenServer

@Suite("An error in access.clients")
struct ClientErrorTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let clients: String
    let others: String
    let error: String

    init(_ label: String, _ clients: String, _ others: String = "", error: String) {
      (testDescription, self.clients, self.others, self.error) = (label, clients, others, error)
    }
  }

  private static let digest = String(repeating: "0123456789abcdef", count: 4)
  private static let key = "apiKey: { sha256: '\(digest)' }"
  private static let jwt = "jwt: { issuer: 'https://id.example', audience: 'music', jwksFile: 'jwks.json' }"

  static let cases: [Case] = [
    Case("no list", "{}", error: "access.clients: is an object; write a list of objects"),
    Case("no object", "['web']", error: "access.clients[0]: is a string; write an object."),
    Case("no id", "[{ \(key) }]", error: "access.clients[0].id: is not set; write a name such as \"android\"."),
    Case(
      "an id with a space", "[{ id: 'a b', \(key) }]",
      error: "access.clients[0].id: \"a b\" is not a valid client name;"),
    Case(
      "an id that means everybody", "[{ id: 'anonymous', \(key) }]",
      error: "access.clients[0].id: \"anonymous\" has another meaning in logs and metrics;"),
    Case(
      "an id twice", "[{ id: 'a', \(key) }, { id: 'a', origins: ['https://a.example'] }]",
      error: "access.clients[1].id: \"a\" is also the id of access.clients[0]; write a different id for each client."),
    Case(
      "an unknown field", "[{ id: 'a', \(key), catalogue: true }]",
      error: "access.clients[0]: there is no field \"catalogue\"; the nearest is access.clients[0].catalog, of apiKey"),
    Case(
      "an unknown field within", "[{ id: 'a', apiKey: { sha265: '\(digest)', sha256: '\(digest)' } }]",
      error: "access.clients[0].apiKey: there is no field \"sha265\"; the nearest is access.clients[0].apiKey.sha256"),
    Case(
      "nothing that it is known by", "[{ id: 'a' }]",
      error: "access.clients[0]: has neither a credential nor origins, so no request can come from this client; "
        + "write apiKey, jwt or clientCertificate, or origins for web pages"
    ),
    Case(
      "empty origins", "[{ id: 'a', origins: [] }]",
      error: "access.clients[0]: has neither a credential nor origins, so no"),
    Case(
      "empty origins beside a key", "[{ id: 'a', \(key), origins: [] }]",
      error: "access.clients[0].origins: is empty; name some, or leave it out for callers from any origin."),
    Case(
      "two kinds of credential", "[{ id: 'a', \(key), \(jwt) }]",
      error: "access.clients[0].jwt: is a second kind of credential beside apiKey; write a separate client for each"),
    Case(
      "a client that may do nothing", "[{ id: 'a', \(key), token: false }]",
      error: "access.clients[0]: is a client without any permission; turn token, catalog or me on, or remove it."),
    Case(
      "a client that may do nothing without the catalog", "[{ id: 'a', \(key), token: false, catalog: true }]",
      "catalog: { enabled: false }",
      error: "access.clients[0]: is a client without any permission, because catalog.enabled is false;"),
    Case(
      "a client of the catalog, whose settings are invalid",
      "[{ id: 'a', \(key), token: false, catalog: true, me: true }]", "catalog: { concurrency: 0 }",
      error: "catalog.concurrency: 0 is out of range;"),
    Case(
      "me without catalog.me", "[{ id: 'a', \(key), me: true }]",
      error: "access.clients[0].me: has no effect while catalog.me is false;"),
    Case(
      "a key in clear", "[{ id: 'a', apiKey: { sha256: 'mkts_0123456789abcdefghij' } }]",
      error: "access.clients[0].apiKey.sha256: is an API key in clear instead of its SHA-256;"),
    Case(
      "a key that is no hash", "[{ id: 'a', apiKey: { sha256: 'hunter2' } }]",
      error: "access.clients[0].apiKey.sha256: is not a SHA-256 in hexadecimal (7 characters); write the 64"),
    Case(
      "the hash of nothing",
      "[{ id: 'a', apiKey: { sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' } }]",
      error: "access.clients[0].apiKey.sha256: is the SHA-256 of an empty key;"),
    Case("no hash", "[{ id: 'a', apiKey: {} }]", error: "access.clients[0].apiKey.sha256: is not set;"),
    Case("no keys", "[{ id: 'a', apiKey: [] }]", error: "access.clients[0].apiKey: has no key;"),
    Case(
      "one key for two", "[{ id: 'a', \(key) }, { id: 'b', \(key) }]",
      error: "access.clients[1].apiKey: is also a key of access.clients[0]; make a separate key for each client."),
    Case(
      "an origin with a path", "[{ id: 'a', origins: ['https://ok.example', 'https://app.example.com/x'] }]",
      error: "access.clients[0].origins[1]: "),
    Case(
      "a star in the middle", "[{ id: 'a', origins: ['https://app.*.example.com'] }]",
      error: "access.clients[0].origins[0]: A star may only stand for the whole first label of the host"),
    Case(
      "every origin", "[{ id: 'a', origins: ['https://*'] }]",
      error: "access.clients[0].origins[0]: A star alone would give pages of every site your team's tokens and quota."),
    Case(
      "a star before a single label", "[{ id: 'a', origins: ['https://*.com'] }]",
      error: "access.clients[0].origins[0]: The star needs a domain of at least two labels"),
    Case(
      "one origin for two",
      "[{ id: 'a', origins: ['https://a.example'] }, { id: 'b', origins: ['https://A.example'] }]",
      error: "access.clients[1].origins: has https://a.example, which access.clients[0] also has; write it once."),
    Case(
      "one origin twice", "[{ id: 'a', origins: ['https://*.a.example.com', 'https://*.a.example.com:443'] }]",
      error: "access.clients[0].origins: has https://*.a.example.com twice; write it once."),
    Case(
      "one name of a certificate for two",
      "[{ id: 'a', clientCertificate: { san: 'A.example' } }, { id: 'b', clientCertificate: { san: 'a.example' } }]",
      "server: { tls: { certificateFile: 'c', keyFile: 'k', clientCAFile: 'ca' } }",
      error: "access.clients[1].clientCertificate.san: has a.example, which access.clients[0] also has; write it once."
    ),
    Case(
      "a life above the maximum", "[{ id: 'a', \(key), ttl: '48h' }]",
      error: "access.clients[0].ttl: is more than token.maxTTL;"),
    Case(
      "a storefront", "[{ id: 'a', \(key), storefronts: ['usa'] }]", error: "access.clients[0].storefronts[0]: \"usa\""),
    Case("no storefronts", "[{ id: 'a', \(key), storefronts: [] }]", error: "access.clients[0].storefronts: is empty;"),
    Case(
      "a share of all and more", "[{ id: 'a', \(key), share: 1.5 }]",
      error: "access.clients[0].share: 1.5 is out of range;"
    ),
    Case(
      "a rate without its number", "[{ id: 'a', \(key), rateLimit: { burst: 5 } }]",
      error: "access.clients[0].rateLimit.perSecond: is not set;"),
    Case(
      "a rate of nothing", "[{ id: 'a', \(key), rateLimit: { perSecond: 0 } }]",
      error: "access.clients[0].rateLimit.perSecond: 0 is out of range;"),
    Case(
      "a total burst of nothing", "[{ id: 'a', \(key), rateLimit: { total: { perSecond: 5, burst: 0 } } }]",
      error: "access.clients[0].rateLimit.total.burst: 0 is out of range;"),
    Case(
      "a rate per nobody", "[{ id: 'a', \(key), rateLimit: { perSecond: 5, per: 'user' } }]",
      error: "access.clients[0].rateLimit.per: \"user\" is not one of its values; write one of \"address\", \"sub\"."),
    Case(
      "a strict rate without other replicas", "[{ id: 'a', \(key), rateLimit: { perSecond: 5, strict: true } }]",
      error:
        "access.clients[0].rateLimit.strict: has no effect without shared.url, because one process alone is always "
        + "strict; leave it out, or name the store of the replicas in shared.url."),
    Case(
      "a rate as a number", "[{ id: 'a', \(key), rateLimit: 5 }]", error: "access.clients[0].rateLimit: is a number;"),
    Case(
      "a certificate that nobody asks for", "[{ id: 'a', clientCertificate: { san: 'spiffe://a.example/b' } }]",
      error: "access.clients[0].clientCertificate: has no effect, because the server requests no client certificate;"),
    Case(
      "a name of a certificate with a star", "[{ id: 'a', clientCertificate: { san: '*.example.com' } }]",
      "server: { tls: { certificateFile: 'c', keyFile: 'k', clientCAFile: 'ca' } }",
      error: "access.clients[0].clientCertificate.san: \"*.example.com\" is not a subject alternative name;"),
    Case(
      "a JWT without its audience", "[{ id: 'a', jwt: { issuer: 'i', jwksFile: 'f' } }]",
      error: "access.clients[0].jwt.audience: is not set; write the token's aud."),
    Case(
      "a JWT without keys", "[{ id: 'a', jwt: { issuer: 'i', audience: 'a' } }]",
      error: "access.clients[0].jwt.jwksURL: is not set;"),
    Case(
      "a JWT without keys or a URL", "[{ id: 'a', jwt: { issuer: 'accounts.google.com', audience: 'a' } }]",
      error: "access.clients[0].jwt.jwksURL: is not set; write where the provider publishes its keys, an https URL, or "
        + "jwksFile for a copy of them. The server cannot find them by the issuer, because the issuer does not begin with https://."
    ),
    Case(
      "an issuer with a query, without keys", "[{ id: 'a', jwt: { issuer: 'https://a.example/?p=1', audience: 'a' } }]",
      error: "access.clients[0].jwt.jwksURL: is not set; write where the provider publishes its keys, an https URL, or "
        + "jwksFile for a copy of them. The server cannot find them by the issuer, because the issuer has a query (“?…”)."
    ),
    Case(
      "neither audience nor application",
      "[{ id: 'a', jwt: { issuer: 'i', jwksFile: 'f', requiredClaims: { scope: 'music', token_use: 'access' } } }]",
      error: "access.clients[0].jwt.audience: is not set, and scope, token_use in requiredClaims do not name the "
        + "application that a token is for, so a token for another application would count; write the token's aud. If "
        + "tokens have none, require one of client_id, azp,"),
    Case(
      "empty claims in place of an audience",
      "[{ id: 'a', jwt: { issuer: 'i', jwksFile: 'f', requiredClaims: {} } }]",
      error: "access.clients[0].jwt.audience: is not set; write the token's aud. If tokens have none, name the"),
    Case(
      "no audience beside another client of the issuer",
      """
      [{ id: 'a', jwt: { issuer: 'i', audience: 'music', jwksFile: 'f' } },
       { id: 'b', jwt: { issuer: 'i', jwksFile: 'f', requiredClaims: { azp: 'b' } } }]
      """,
      error: "access.clients[1].jwt: matches tokens that access.clients[0] also matches;"),
    Case(
      "keys from two places",
      "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: 'f', jwksURL: 'https://a.example' } }]",
      error: "access.clients[0].jwt.jwksURL: is set, and so is jwksFile; keep one of the two."),
    Case(
      "keys over plain HTTP", "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksURL: 'http://a.example/jwks' } }]",
      error: "access.clients[0].jwt.jwksURL: "),
    Case(
      "a password in the address of keys",
      "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksURL: 'https://user:hunter2@a.example/jwks' } }]",
      error: "access.clients[0].jwt.jwksURL: the URL has no valid host and port;"),
    Case(
      "a secret in the query of an address that is wrong",
      "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksURL: 'http://a.example/jwks?hunter2' } }]",
      error: "access.clients[0].jwt.jwksURL: the URL does not begin with https://;"),
    Case(
      "a claim without a value",
      "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: 'f', requiredClaims: { scope: [] } } }]",
      error: "access.clients[0].jwt.requiredClaims.scope: is empty;"),
    Case(
      "an algorithm that there is not",
      "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: 'f', algorithms: ['HS256'] } }]",
      error: "access.clients[0].jwt.algorithms[0]: \"HS256\" is not one of its values;"),
    Case(
      "tokens that mean two", "[{ id: 'a', \(jwt) }, { id: 'b', \(jwt) }]",
      error: "access.clients[1].jwt: matches tokens that access.clients[0] also matches;"),
  ]

  @Test("gives the path, the problem and the remedy", arguments: cases)
  func errors(_ `case`: Case) throws {
    let errors = try Self.errors(`case`.clients, `case`.others)
    #expect(errors.contains { $0.contains(`case`.error) }, "\(errors)")
    #expect(errors.allSatisfy { !$0.contains("\n") && $0.hasSuffix(".") })
    #expect(errors.count == 1 && !errors[0].contains("hunter2"), "\(errors)")
  }

  @Test(
    "warns of origins without https, of limits without effect, and of issuers that differ by a slash",
    arguments: [
      ("[{ id: 'a', origins: ['http://app.example.com'] }]", "access.clients[0] has the origin http://app.example.com"),
      (
        "[{ id: 'a', origins: ['http://*.a.example'] }]", "access.clients[0] has the origin http://*.a.example: without"
      ),
      (
        "[{ id: 'a', \(key), storefronts: ['us'] }]",
        "access.clients[0].storefronts has no effect without catalog: true"
      ),
      ("[{ id: 'a', \(key), share: 0.5 }]", "access.clients[0].share has no effect without catalog: true"),
      ("[{ id: 'a', \(key), token: false, catalog: true, ttl: '1h' }]", "access.clients[0].ttl has no effect without"),
      ("[{ id: 'a', \(key), catalog: true, ttl: '1h', storefronts: ['us'], share: 0.5 }]", nil),
      ("[{ id: 'a', origins: ['http://localhost:3000', 'http://127.0.0.1', 'https://a.example'] }]", nil),
      (
        "[{ id: 'a', \(jwt) }, { id: 'b', \(jwt.replacing(".example'", with: ".example/'")) }]",
        "access.clients[1].jwt.issuer differs from that of access.clients[0] only by the slash at its end."
      ),
      ("[{ id: 'a', \(jwt) }, { id: 'b', \(jwt.replacing("music", with: "other")) }]", nil),
    ])
  func warnings(_ clients: String, _ warning: String?) throws {
    let file =
      "{ musickit: { teamID: 'TEAM123456', keyFile: 'AuthKey_KEY1234567.p8' }, access: { clients: \(clients) } }"
    let warnings = try SettingsFixture(file).load().draft.warnings
    #expect(warnings.count == (warning == nil ? 0 : 1), "\(warnings)")
    if let warning { #expect(warnings.first?.hasPrefix(warning) == true, "\(warnings)") }
  }

  @Test("does not hide other errors")
  func all() throws {
    let errors = try Self.errors(
      """
      [ { id: "a", origins: ["https://*"], rateLimit: { perSecond: -1 }, colour: 1 },
        { id: "b", apiKey: { sha256: "x" }, ttl: 5 },
        { id: "b", origins: ["https://b.example"] },
        { id: "c", origins: ["https://b.example"] } ]
      """)
    let places = [
      "[0].origins[0]", "[0].rateLimit.perSecond", "[0]: there is no field \"colour\"", "[1].apiKey.sha256", "[1].ttl",
      "[3].origins",
    ]
    for place in places { #expect(errors.contains { $0.contains("access.clients\(place)") }, "\(place): \(errors)") }
  }

  @Test("does not hide a conflict between clients")
  func clashes() throws {
    let errors = try Self.errors(
      """
      [ { id: "a", colour: 1, origins: ["https://a.example", "https://x/y"] },
        { id: "a", apiKey: { sha256: ["\(Self.digest)", "x"] }, share: 2 },
        { id: "c", apiKey: { sha256: "\(Self.digest)" }, token: 1 },
        { id: "d e", origins: ["https://a.example"] },
        { id: "f", token: false, jwt: { issuer: "i", audience: "a", jwksFile: "f", algorithms: ["none"] } },
        { id: "g", jwt: { issuer: "i", audience: "a" } },
        { id: "h", clientCertificate: { san: ["a.example", "*"] } },
        { id: "i", clientCertificate: { san: ["a.example"] }, ttl: "1y" } ]
      """)
    for clash in [
      "[1].id: \"a\" is also the id of access.clients[0]", "[2].apiKey: is also a key of access.clients[1]",
      "[3].origins: has https://a.example, which access.clients[0] also has",
      "[5].jwt: matches tokens that access.clients[4] also matches",
      "[7].clientCertificate.san: has a.example, which access.clients[6] also has",
    ] {
      #expect(errors.contains { $0.contains("access.clients\(clash)") }, "\(clash): \(errors)")
    }
  }

  @Test("clients with unreadable required claims do not conflict")
  func unreadClaims() throws {
    let provider = "issuer: 'i', audience: 'a', jwksFile: 'f'"
    let errors = try Self.errors(
      """
      [ { id: "a", jwt: { \(provider), requiredClaims: { scope: 1 } } },
        { id: "b", jwt: { \(provider), requiredClaims: { scope: "b" } } } ]
      """)
    #expect(errors.count == 1 && errors[0].contains("access.clients[0].jwt.requiredClaims.scope"), "\(errors)")
  }

  /// Clients with an API key in each place where a key could stand by mistake.
  static let misplacedKeys: [String] = [
    "[{ id: 'KEY', origins: ['https://a.example'] }]", "[{ id: 'a', KEY: true }]", "[{ id: 'a', 'Bearer KEY': true }]",
    "[{ id: 'a', apiKey: 'KEY' }]", "[{ id: 'a', apiKey: { KEY: '' } }]", "[{ id: 'a', apiKey: { sha256: 'KEY' } }]",
    "[{ id: 'a', apiKey: { sha256: ['Bearer KEY'] } }]", "[{ id: 'a', origins: 'KEY' }]",
    "[{ id: 'a', origins: ['https://KEY/x', 'KEY'], ttl: 'KEY' }]",
    "[{ id: 'a', origins: ['https://a.example'], ttl: 'KEY', storefronts: ['KEY'], token: 'KEY' }]",
    "[{ id: 'a', origins: ['https://a.example'], rateLimit: { perSecond: 'KEY', burst: 'KEY', KEY: 1 }, share: 'KEY' }]",
    "[{ id: 'a', jwt: { issuer: 'KEY', audience: 'KEY', jwksURL: 'KEY' } }]",
    "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksURL: 'https://id.example/?key=KEY' } }]",
    "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: 'KEY' } }]",
    "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksURL: 'https://id.example/', caFile: 'Bearer KEY' } }]",
    "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: 'f', algorithms: ['KEY'], KEY: 1 } }]",
    "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: 'f', requiredClaims: { KEY: 1, b: { KEY: 1 } } } }]",
    "[{ id: 'a', clientCertificate: { san: 'KEY' } }]", "[{ id: 'a', clientCertificate: { san: 'KEY/' } }]",
    "[{ id: 'a', clientCertificate: { KEY: 'KEY' } }]",
    "[{ id: 'a', clientCertificate: { san: 'urn:KEY' } }, { id: 'b', clientCertificate: { san: 'urn:KEY' } }]",
    "[{ id: 'a', origins: ['https://KEY.x'] }, { id: 'b', origins: ['https://KEY.x'] }]", "['KEY']", "'KEY'",
  ]

  @Test("never quotes a misplaced API key", arguments: misplacedKeys)
  func misplacedKey(_ clients: String) throws {
    // A complete key and a truncated key.
    for key in ["mkts_0123456789SECRETSECRETSECRET0123456789SECRETSECRET", "mkts_SECRETSECRETSECRET"] {
      let text = clients.replacing("KEY", with: key)
      let fixture = try SettingsFixture(
        "{ musickit: { teamID: 'TEAM123456', keyFile: '/nonexistent.p8' }, access: { clients: \(text) } }")
      let result = CheckConfigCommand.result(fixture.input())
      withExtendedLifetime(fixture) {}
      #expect(result.status == .configuration)
      #expect(result.diagnostics.contains { $0.hasPrefix("access.clients") }, "\(result.diagnostics)")
      let said = result.diagnostics.joined(separator: "\n").lowercased()
      #expect(!said.contains("secret") && !said.contains("mkts_"), "\(said)")
    }
  }

  @Test("asks for a fresh key if an id contains an API key")
  func keyAsID() throws {
    for id in ["mkts_a", "my-mkts_0123456789abcdefghij"] {
      let errors = try Self.errors("[{ id: '\(id)', origins: ['https://a.example'] }]")
      #expect(
        errors == [
          "access.clients[0].id: is or contains an API key; write a name, such as \"android\"; others may know this "
            + "key now: make a new one with new-api-key."
        ])
    }
  }

  @Test("never quotes a value that may be an API key")
  func secrecy() throws {
    for value in ["hunter2-hunter2", "mkts_SECRETSECRETSECRET", String(repeating: "SECRET", count: 20)] {
      let errors = try Self.errors("[{ id: 'a', apiKey: { sha256: '\(value)' } }]")
      #expect(!errors.isEmpty && errors.allSatisfy { !$0.contains("hunter2") && !$0.contains("SECRET") })
    }
  }

  @Test("does not occur for the documented example, in a file or in a variable")
  func example() throws {
    let clients = """
      [ { id: "android",  apiKey: { sha256: "\(Self.digest)" }, ttl: "12h", catalog: true },
        { id: "web",      origins: ["https://app.example.com", "https://*.preview.example.com"],
          rateLimit: { perSecond: 5, burst: 20 } },
        { id: "backend",  jwt: { issuer: "https://id.example.com/", audience: "music", jwksFile: "jwks.json" } },
        { id: "partner",  clientCertificate: { san: "spiffe://example.com/partner" }, token: false, catalog: true }, ]
      """
    let others = "server: { tls: { certificateFile: 'c', keyFile: 'k', clientCAFile: 'ca' } }"
    #expect(try Self.errors(clients, others).isEmpty)
    let musickit = #"musickit: { teamID: "TEAM123456", keyFile: "AuthKey_KEY1234567.p8" }"#
    #expect(try SettingsFixture.errors("{ \(musickit), \(others) }", ["ACCESS_CLIENTS": clients]).isEmpty)
  }

  private static func errors(_ clients: String, _ others: String = "") throws -> [String] {
    let sections = [
      #"musickit: { teamID: "TEAM123456", keyFile: "AuthKey_KEY1234567.p8" }"#, "access: { clients: \(clients) }",
      others,
    ]
    return try SettingsFixture.errors("{ \(sections.filter { !$0.isEmpty }.joined(separator: ", ")) }")
  }
}
