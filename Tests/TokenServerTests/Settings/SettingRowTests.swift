import Testing

@testable import ServerSettings

@Suite("The rows of the settings")
struct SettingRowTests {
  @Test("are all read, so that a wrong value is an error at its path", arguments: Settings.known.map(\.path))
  func read(_ path: String) throws {
    let file = path.split(separator: ".").reversed().reduce("null") { "{ \($1): \($0) }" }
    let fixture = try SettingsFixture(file)
    let error = #expect(throws: InvalidSettings.self) { try fixture.load() }
    #expect(error?.errors.contains { $0.path == path && $0.source == .file(fixture.path) } == true)
  }

  @Test("have each a path and a variable of their own")
  func unique() {
    #expect(Set(Settings.known.map(\.path)).count == Settings.known.count)
    #expect(Set(Settings.known.map(\.variable)).count == Settings.known.count)
  }

  @Test("have each sentences for the documents, and a default or an example", arguments: Settings.known.map(\.path))
  func text(_ path: String) throws {
    let row = try #require(Settings.schema.settings[path])
    #expect(row.text.hasSuffix(".") && !row.text.contains("\n") && !row.text.contains("|"))
    let value = try JSON5Parser.parse("[\(try #require(row.example ?? row.defaultText))]")
    guard case .array(let elements) = value else { return }
    #expect(row.isSecret || row.canonical(.json(elements[0])) != nil)
  }
}

@Suite("The rows of a client's members")
struct ClientRowTests {
  private static let rows = Settings.Access.clients.descendants
  static let paths = rows.map(\.path)

  /// The paths of the errors, at `path` or below, of a client that has `value` there.
  private static func errors(_ path: String, _ value: String) throws -> [String] {
    let client = path.split(separator: ".").reversed().reduce(value) { "{ \($1): \($0) }" }
    let tls = "server: { tls: { certificateFile: 'c', keyFile: 'k', clientCAFile: 'ca' } }"
    let fixture = try SettingsFixture("{ access: { clients: [\(client)] }, \(tls) }")
    let error = #expect(throws: InvalidSettings.self) { try fixture.load() }
    let place = "access.clients[0].\(path)"
    return (error?.errors ?? []).filter { $0.source == .file(fixture.path) }.map(\.path)
      .filter { $0 == place || $0.hasPrefix("\(place).") || $0.hasPrefix("\(place)[") }
  }

  @Test("are all read, so that a wrong value is an error at its path", arguments: paths)
  func read(_ path: String) throws {
    #expect(try Self.errors(path, "null") == ["access.clients[0].\(path)"])
  }

  @Test("have each sentences, and a default or an example that can be used", arguments: paths)
  func text(_ path: String) throws {
    let row = try #require(Self.rows.first { $0.path == path }).row
    #expect(row.text.hasSuffix(".") && !row.text.contains("\n") && !row.text.contains("|"))
    let errors = try Self.errors(path, try #require(row.example ?? row.defaultText))
    #expect(errors.isEmpty, "\(errors)")
  }

  @Test("are those of every object that a client can have")
  func objects() {
    #expect(Set(Self.paths).count == Self.paths.count)
    for path in ["id", "apiKey.sha256", "jwt.requiredClaims", "clientCertificate.san", "rateLimit.total.burst"] {
      #expect(Self.paths.contains(path))
    }
  }
}
