import JSON
import Testing

@testable import ServerSettings

@Suite("The table of settings")
struct SettingRowTests {
  @Test(
    "contains only settings that the server reads, with an error path for a wrong value",
    arguments: Settings.known.map(\.path))
  func read(_ path: String) throws {
    let file = path.split(separator: ".").reversed().reduce("null") { "{ \($1): \($0) }" }
    let fixture = try SettingsFixture(file)
    let error = #expect(throws: InvalidSettings.self) { try fixture.load() }
    #expect(error?.errors.contains { $0.path == path && $0.source == .file(fixture.path) } == true)
  }

  @Test("is shown to operators without the query of a URL, which may have a secret")
  func entries() throws {
    let jwt = "{ issuer: 'i', audience: 'a', jwksURL: 'https://id.example/keys?token=geheim' }"
    let loaded = try SettingsFixture().load(["ACCESS_CLIENTS": "[{ id: 'a', jwt: \(jwt) }]"])
    let shown = loaded.draft.entries.first { $0.path == "access.clients" }?.value?.ascii ?? ""
    #expect(shown.contains("\"https://id.example/keys\"") && !shown.contains("geheim"), "\(shown)")
  }

  @Test("has unique paths and unique variables")
  func unique() {
    #expect(Set(Settings.known.map(\.path)).count == Settings.known.count)
    #expect(Set(Settings.known.map(\.variable)).count == Settings.known.count)
  }

  @Test(
    "has a documentation text and a valid default or example for each setting", arguments: Settings.known.map(\.path))
  func text(_ path: String) throws {
    let row = try #require(Settings.schema.settings[path])
    #expect(row.text.hasSuffix(".") && !row.text.contains("\n") && !row.text.contains("|"))
    let value = try JSON5Parser.parse("[\(try #require(row.example ?? row.defaultText))]")
    guard case .array(let elements) = value else { return }
    #expect(row.isSecret || row.canonical(.json(elements[0])) != nil)
  }
}

@Suite("The table of a client's members")
struct ClientRowTests {
  private static let rows = Settings.Access.clients.descendants
  static let paths = rows.map(\.path)

  /// The paths of the errors at or below `path`, for a client with `value` at `path`.
  private static func errors(_ path: String, _ value: String) throws -> [String] {
    let client = path.split(separator: ".").reversed().reduce(value) { "{ \($1): \($0) }" }
    let tls = "server: { tls: { certificateFile: 'c', keyFile: 'k', clientCAFile: 'ca' } }"
    let fixture = try SettingsFixture("{ access: { clients: [\(client)] }, \(tls) }")
    let error = #expect(throws: InvalidSettings.self) { try fixture.load() }
    let place = "access.clients[0].\(path)"
    return (error?.errors ?? []).filter { $0.source == .file(fixture.path) }.map(\.path)
      .filter { $0 == place || $0.hasPrefix("\(place).") || $0.hasPrefix("\(place)[") }
  }

  @Test("contains only members that the server reads, with an error path for a wrong value", arguments: paths)
  func read(_ path: String) throws {
    #expect(try Self.errors(path, "null") == ["access.clients[0].\(path)"])
  }

  @Test("has a documentation text and a valid default or example for each member", arguments: paths)
  func text(_ path: String) throws {
    let row = try #require(Self.rows.first { $0.path == path }).row
    #expect(row.text.hasSuffix(".") && !row.text.contains("\n") && !row.text.contains("|"))
    let errors = try Self.errors(path, try #require(row.example ?? row.defaultText))
    #expect(errors.isEmpty, "\(errors)")
  }

  @Test("contains the members of all nested objects of a client")
  func objects() {
    #expect(Set(Self.paths).count == Self.paths.count)
    for path in ["id", "apiKey.sha256", "jwt.requiredClaims", "clientCertificate.san", "rateLimit.total.burst"] {
      #expect(Self.paths.contains(path))
    }
  }
}
