import HTTPServer
import Testing

@testable import TokenServer

@Suite("The configuration that comes along")
struct ExampleConfigTests {
  /// A file of `config/`, which stands three folders above this source.
  static func text(_ name: String) throws -> String {
    let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
    return String(decoding: try SmallFile.read("\(root)/config/\(name)", atMost: 1 << 20), as: UTF8.self)
  }

  /// The example with every `// name: value,` that stands alone on its line taken at its word.
  static func everything() throws -> String {
    let lines = try text("example.json5").split(separator: "\n").map { line in
      let isSetting = line.contains(/^ *\/\/ [a-zA-Z]+: .*,$/)
      return isSetting ? String(line).replacing("// ", with: "", maxReplacements: 1) : String(line)
    }
    return lines.joined(separator: "\n")
  }

  @Test("loads as it is, to the defaults", arguments: ["minimal.json5", "example.json5"])
  func loads(_ name: String) throws {
    let settings = try SettingsFixture(Self.text(name)).load().settings
    let defaults = try SettingsFixture().load().settings
    #expect(settings.token == defaults.token)
    #expect(settings.server.limits == ServerLimits())
    #expect(settings.admin == defaults.admin)
    if name == "example.json5" { #expect(settings.access == defaults.access) }
    #expect(settings.log == defaults.log)
  }

  @Test("has three settings at the least")
  func minimal() throws {
    let fixture = try SettingsFixture(Self.text("minimal.json5"))
    let layers = withExtendedLifetime(fixture) { SettingsLayers(fixture.input(), schema: Settings.schema) }
    #expect(layers.values.keys.sorted() == ["access.clients", "musickit.keyFile", "musickit.teamID"])
  }

  @Test("shows every setting with its true default", arguments: Settings.known.map(\.path))
  func example(_ path: String) throws {
    let setting = try #require(Settings.schema.settings[path])
    var value = try JSON5Parser.parse(Self.everything())
    for name in path.split(separator: ".") {
      guard case .object(let members) = value else { break }
      value = try #require(members[String(name)], "config/example.json5 does not show it")
    }
    let canonical = try #require(setting.canonical(.json(value)))
    if let fallback = setting.fallback { #expect(canonical == fallback) }
  }

  @Test("shows nothing that is no setting")
  func unknown() throws {
    let fixture = try SettingsFixture(Self.everything())
    let layers = withExtendedLifetime(fixture) { SettingsLayers(fixture.input(), schema: Settings.schema) }
    #expect(layers.faults.isEmpty)
    #expect(Set(layers.values.keys) == Set(Settings.known.map(\.path)))
  }
}
