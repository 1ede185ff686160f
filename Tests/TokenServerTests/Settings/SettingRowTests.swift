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
