import Glibc
import Testing

@testable import ServerSettings
@testable import TokenServer

/// Input for settings from a temporary file, which `deinit` removes.
final class SettingsFixture {
  static let host = HostFacts(openFiles: 100_000, cores: 3, logsToTerminal: false)
  /// The smallest valid configuration.
  static let minimal =
    #"musickit: { teamID: "TEAM123456", keyFile: "AuthKey_KEY1234567.p8" }, access: { anonymous: { token: true } }"#

  let path: String

  init(_ file: String = "{ \(minimal) }") throws {
    var template = Array("/tmp/settings-XXXXXX".utf8CString)
    let descriptor = unsafe mkstemp(&template)
    try #require(descriptor >= 0)
    path = String(decoding: template.dropLast().map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    let bytes = Array(file.utf8)
    let written = unsafe write(descriptor, bytes, bytes.count)
    close(descriptor)
    try #require(written == bytes.count)
  }

  deinit { unsafe unlink(path) }

  func input(
    _ environment: [String: String] = [:], flags: [String: String] = [:], unsafeAllow: Bool = false,
    host: HostFacts = SettingsFixture.host
  ) -> SettingsInput {
    SettingsInput(
      file: path, environment: environment,
      flags: flags.map { ("--set", $0.key, $0.value) },
      allowsAnonymous: unsafeAllow, host: host)
  }

  /// Loads the settings while the file exists.
  func load(
    _ environment: [String: String] = [:], flags: [String: String] = [:], unsafeAllow: Bool = false,
    host: HostFacts = SettingsFixture.host
  ) throws(InvalidSettings) -> Settings.Loaded {
    defer { withExtendedLifetime(self) {} }
    return try Settings.load(input(environment, flags: flags, unsafeAllow: unsafeAllow, host: host))
  }

  /// Every error of `file` and `environment`, as sentences without the name of the file.
  static func errors(
    _ file: String, _ environment: [String: String] = [:], flags: [String: String] = [:],
    host: HostFacts = SettingsFixture.host
  ) throws -> [String] {
    let fixture = try SettingsFixture(file)
    do throws(InvalidSettings) {
      _ = try fixture.load(environment, flags: flags, host: host)
      return []
    } catch {
      return error.errors.map { $0.description.replacing(" (file \(fixture.path))", with: "") }
        .map { $0.replacing("file \(fixture.path)", with: "FILE") }
    }
  }
}
