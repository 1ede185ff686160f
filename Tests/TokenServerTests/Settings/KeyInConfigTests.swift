import Glibc
import TestSupport
import Testing

@testable import Commands
@testable import ServerSettings

@Suite("A configuration file with the private key")
struct KeyInConfigTests {
  private static func run(_ file: String, mode: mode_t) throws -> CommandResult {
    let fixture = try SettingsFixture(file)
    try #require(unsafe chmod(fixture.path, mode) == 0)
    defer { withExtendedLifetime(fixture) {} }
    return CheckConfigCommand.result(fixture.input())
  }

  private static func withKey() throws -> String {
    let key = try KeyFixture()
    defer { withExtendedLifetime(key) {} }
    let text = String(decoding: try SmallFile.read(key.path, atMost: 4096), as: UTF8.self).replacing("\n", with: "\\n")
    return
      "{ musickit: { teamID: 'TEAM123456', keyID: 'KEY1234567', key: '\(text)' }, access: { anonymous: { token: true } } }"
  }

  @Test("is rejected if others can write the file", arguments: [mode_t(0o620), 0o602, 0o666])
  func writable(_ mode: mode_t) throws {
    let result = try Self.run(try Self.withKey(), mode: mode)
    #expect(result.status == .configuration)
    #expect(result.diagnostics.count == 1)
    #expect(result.diagnostics.first?.hasPrefix("musickit.key (file ") == true)
    #expect(result.diagnostics.first?.contains("0" + String(mode, radix: 8)) == true)
  }

  @Test("causes a warning if others can read the file", arguments: [mode_t(0o644), 0o640, 0o604])
  func readable(_ mode: mode_t) throws {
    let result = try Self.run(try Self.withKey(), mode: mode)
    #expect(result.status == .good)
    #expect(result.diagnostics.count == 1)
    #expect(result.diagnostics.first?.hasPrefix("Warning: The configuration file, which holds the key,") == true)
  }

  @Test("is accepted if only the owner has access, and a file without a key may have any mode")
  func good() throws {
    #expect(try Self.run(try Self.withKey(), mode: 0o600) == Self.run(try Self.withKey(), mode: 0o400))
    #expect(try Self.run(try Self.withKey(), mode: 0o600).diagnostics.isEmpty)
    let fixture = try SettingsFixture()
    try #require(unsafe chmod(fixture.path, 0o666) == 0)
    #expect(try fixture.load().draft.warnings.isEmpty)
  }

  private static func address(of bytes: [UInt8]) -> UInt {
    unsafe bytes.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
  }

  @Test("is wiped from its read buffer after parsing")
  func wipe() throws {
    let fixture = try SettingsFixture("{ a: 'secret' }")
    var bytes = try SmallFile.read(fixture.path, atMost: 4096)
    let before = Self.address(of: bytes)
    _ = try JSON5Parser.parse(bytes)
    bytes.wipe()
    #expect(Self.address(of: bytes) == before, "no copy was made for the parser's sake")
    #expect(bytes == Array(repeating: 0, count: 15))
  }

  @Test("has an exact size limit")
  func limit() throws {
    let fixture = try SettingsFixture("12345678")
    #expect(try SmallFile.read(fixture.path, atMost: 8).count == 8)
    #expect(throws: SmallFile.Failure.tooLarge) { try SmallFile.read(fixture.path, atMost: 7) }
  }
}
