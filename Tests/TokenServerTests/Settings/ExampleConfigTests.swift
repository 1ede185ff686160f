import Access
import HTTPServer
import JSON
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("A configuration file of the distribution")
struct ExampleConfigTests {
  /// A file of `config/` in the root of the repository, three folders above the folder of this source file.
  static func text(_ name: String) throws -> String {
    let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
    return String(decoding: try SmallFile.read("\(root)/config/\(name)", atMost: 1 << 20), as: UTF8.self)
  }

  /// The example with all its commented settings enabled: every `// name: value,` alone on its line, and every object
  /// between `// name: {` and `// },`.
  static func everything() throws -> String {
    var isInObject = false
    let lines = try text("example.json5").split(separator: "\n").map { line in
      let begins = line.contains(/^ *\/\/ [a-zA-Z0-9]+: \{$/)
      let isTaken = isInObject || begins || line.contains(/^ *\/\/ [a-zA-Z0-9]+: .*,$/)
      isInObject = begins || isInObject && !line.contains(/^ *\/\/ \},$/)
      return isTaken ? String(line).replacing(/\/\/ ?/, with: "", maxReplacements: 1) : String(line)
    }
    #expect(!isInObject, "an object is not closed")
    return lines.joined(separator: "\n")
  }

  /// The paths that a file sets.
  private static func pathsSet(by text: String) throws -> [String] {
    let fixture = try SettingsFixture(text)
    let layers = withExtendedLifetime(fixture) { SettingsLayers(fixture.input(), schema: Settings.schema) }
    #expect(layers.errors.isEmpty)
    return layers.values.keys.sorted()
  }

  /// The settings that every copy must change.
  private static let own = ["access.clients", "musickit.keyFile", "musickit.teamID"]

  @Test("loads unchanged and keeps the defaults", arguments: ["minimal.json5", "example.json5"])
  func loads(_ name: String) throws {
    let settings = try SettingsFixture(Self.text(name)).load().settings
    let defaults = try SettingsFixture().load().settings
    #expect(settings.token == defaults.token)
    #expect(settings.server.limits == ServerLimits())
    #expect(settings.admin == defaults.admin)
    #expect(settings.log == defaults.log)
  }

  @Test("sets exactly three settings", arguments: ["minimal.json5", "example.json5"])
  func minimal(_ name: String) throws {
    #expect(try Self.pathsSet(by: Self.text(name)) == Self.own)
  }

  @Test("grants access to one web page and has no anonymous policy", arguments: ["minimal.json5", "example.json5"])
  func access(_ name: String) throws {
    let access = try SettingsFixture(Self.text(name)).load().settings.access
    #expect(access.clients.map(\.id) == ["web"])
    #expect(access.clients.map(\.credential) == [.origin])
    #expect(access.anonymous == nil)
  }

  @Test("shows every setting with its actual default")
  func example() throws {
    let everything = try JSON5Parser.parse(Self.everything())
    for path in Settings.known.map(\.path) {
      let setting = try #require(Settings.schema.settings[path])
      var value = everything
      for name in path.split(separator: ".") {
        guard value.isObject else { break }
        value = try #require(value[String(name)], "config/example.json5 does not show \(path)")
      }
      let canonical = try #require(setting.canonical(.json(value)), "\(path)")
      if let fallback = setting.defaultText, !Self.own.contains(path) { #expect(canonical == fallback, "\(path)") }
    }
  }

  @Test("shows only known settings")
  func unknown() throws {
    #expect(try Self.pathsSet(by: Self.everything()) == Settings.known.map(\.path).sorted())
  }
}
