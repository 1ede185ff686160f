import Testing

@testable import Access
@testable import ServerSettings
@testable import TokenServer

@Suite("The policy for anonymous callers")
struct AnonymousPolicyTests {
  private static let musickit = #"musickit: { teamID: "TEAM123456", keyFile: "AuthKey_KEY1234567.p8" }"#
  private static let client = "clients: [{ id: 'web', origins: ['https://app.example.com'] }]"

  private static func file(_ access: String) -> String { "{ \(musickit), access: { \(access) } }" }

  private static func load(
    _ access: String, _ environment: [String: String] = [:], flags: [String: String] = [:]
  ) throws -> Settings.Loaded {
    try SettingsFixture(file(access)).load(environment, flags: flags)
  }

  struct Row: Sendable, CustomTestStringConvertible {
    let access: String
    var environment: [String: String] = [:]
    var flags: [String: String] = [:]
    /// token, catalog, me
    let grants: [Bool]

    var testDescription: String { "\(access) \(environment) \(flags)" }
  }

  @Test(
    "grants tokens only for token: true or for an empty object",
    arguments: [
      Row(access: "anonymous: {}", grants: [true, false, false]),
      Row(access: "anonymous: { token: true }", grants: [true, false, false]),
      Row(access: "anonymous: { catalog: true }", grants: [false, true, false]),
      Row(access: "anonymous: { token: false, catalog: true }", grants: [false, true, false]),
      Row(access: client, environment: ["ACCESS_ANONYMOUS": "{}"], grants: [true, false, false]),
      Row(access: client, environment: ["ACCESS_ANONYMOUS": "{ catalog: true }"], grants: [false, true, false]),
      Row(access: client, flags: ["access.anonymous": "{ catalog: true }"], grants: [false, true, false]),
      Row(
        access: "anonymous: { catalog: true }", environment: ["ACCESS_ANONYMOUS_TOKEN": "true"],
        grants: [true, true, false]),
      Row(
        access: "anonymous: { token: true, catalog: true }", environment: ["ACCESS_ANONYMOUS_TOKEN": "false"],
        grants: [false, true, false]),
      Row(
        access: client, environment: ["ACCESS_ANONYMOUS": "{}", "ACCESS_ANONYMOUS_CATALOG": "true"],
        grants: [true, true, false]),
      // The object of the variable replaces the object of the file.
      Row(
        access: "anonymous: { token: true }", environment: ["ACCESS_ANONYMOUS": "{ catalog: true }"],
        grants: [false, true, false]),
      Row(
        access: "anonymous: { catalog: true }", flags: ["access.anonymous.ttl": "1h"], grants: [false, true, false]),
    ])
  func tokens(_ row: Row) throws {
    let anonymous = try #require(
      try Self.load(row.access, row.environment, flags: row.flags).settings.access.anonymous)
    #expect([anonymous.token, anonymous.catalog, anonymous.me] == row.grants)
  }

  @Test("is not created by a variable or a flag for one of its members", arguments: [client, ""])
  func variables(_ access: String) throws {
    let values = [
      "token": "false", "catalog": "false", "me": "false", "ttl": "1h", "origins": "['https://a.example']",
      "storefronts": "['us']", "rateLimit": "{ perSecond: 5 }", "share": "0.5",
    ]
    #expect(values.count == Settings.Access.known.count { $0.path.hasPrefix("access.anonymous.") })
    let problem = "changes the anonymous policy, which does not exist; write access.anonymous in"
    for (name, value) in values {
      let path = "access.anonymous.\(name)"
      let variable = try #require(Settings.schema.settings[path]).variable
      let byVariable = try SettingsFixture.errors(Self.file(access), [variable: value])
      #expect(byVariable.count == 1 && byVariable[0].hasPrefix("\(path) (\(variable)): \(problem)"), "\(byVariable)")
      let byFlag = try SettingsFixture.errors(Self.file(access), flags: [path: value])
      #expect(byFlag.count == 1 && byFlag[0].hasPrefix("\(path) (--set): \(problem)"), "\(byFlag)")
    }
  }

  @Test(
    "is an error if it grants nothing",
    arguments: [
      ("anonymous: { catalog: false }", [:], "grants nothing; write"),
      ("anonymous: { token: false }", [:], "grants nothing; write"),
      ("anonymous: { ttl: '1h' }", [:], "grants nothing; write"),
      ("anonymous: { origins: ['https://a.example'] }", [:], "grants nothing; write"),
      ("anonymous: {}", ["ACCESS_ANONYMOUS_TOKEN": "false"], "grants nothing; write"),
      ("anonymous: { me: true }", [:], "grants nothing, because catalog.me is false; write"),
      (
        "anonymous: { catalog: true }", ["CATALOG_ENABLED": "false"],
        "grants nothing, because catalog.enabled is false; write"
      ),
    ] as [(String, [String: String], String)])
  func worthless(_ access: String, _ environment: [String: String], _ problem: String) throws {
    let errors = try SettingsFixture.errors(Self.file(access), environment)
    #expect(errors.count == 1 && errors[0].hasPrefix("access.anonymous: \(problem)"), "\(errors)")
  }

  @Test("may grant something if the settings of the catalog are invalid")
  func invalidCatalog() throws {
    let errors = try SettingsFixture.errors(Self.file("anonymous: { me: true }"), ["CATALOG_CONCURRENCY": "0"])
    #expect(errors.count == 1 && errors[0].hasPrefix("catalog.concurrency "), "\(errors)")
  }

  @Test(
    "rejects an empty list, because that would lift a restriction",
    arguments: ["origins", "storefronts"])
  func emptyLists(_ name: String) throws {
    let access = "anonymous: { token: true, origins: ['https://a.example'], storefronts: ['us'] }"
    let errors = try SettingsFixture.errors(Self.file(access), ["ACCESS_ANONYMOUS_\(name.uppercased())": "[]"])
    #expect(errors.count == 1 && errors[0].contains(": is empty; name some, or leave it out for all"), "\(errors)")
  }

  @Test("causes a warning if it is an empty object")
  func warning() throws {
    #expect(
      try Self.load("anonymous: {}").draft.warnings.first?.hasPrefix("access.anonymous is an empty object:") == true)
    #expect(try Self.load("anonymous: { token: true }").draft.warnings.isEmpty)
    #expect(try Self.load("anonymous: {}", ["ACCESS_ANONYMOUS_TOKEN": "true"]).draft.warnings.isEmpty)
    #expect(try Self.load(Self.client).draft.warnings.isEmpty)
    let vain = try Self.load("anonymous: { token: true, storefronts: ['us'] }").draft.warnings
    #expect(
      vain.first?.hasPrefix("access.anonymous.storefronts has no effect without catalog: true") == true, "\(vain)")
  }

  @Test("causes a warning on a wildcard address without a rate limit")
  func exposure() throws {
    let open = "anonymous: { token: true }"
    for host in ["*", "0.0.0.0", "::"] {
      let warnings = try Self.load(open, ["SERVER_HOST": host]).draft.warnings
      #expect(warnings.count == 1)
      #expect(warnings.first?.hasPrefix("server.host is \"\(host)\", so every network of this machine reaches") == true)
      #expect(warnings.first?.hasSuffix("{ perSecond: 5, burst: 20 }, or server.host: \"127.0.0.1\".") == true)
    }
    #expect(try Self.load(open, ["SERVER_HOST": "192.0.2.1"]).draft.warnings.isEmpty)
    let limited = "anonymous: { token: true, rateLimit: { perSecond: 5 } }"
    #expect(try Self.load(limited, ["SERVER_HOST": "*"]).draft.warnings.isEmpty)
    #expect(try Self.load(Self.client, ["SERVER_HOST": "*"]).draft.warnings.isEmpty)
  }
}
