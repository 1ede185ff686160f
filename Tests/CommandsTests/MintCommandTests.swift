import ArgumentParser
import Bytes
import Glibc
import JSON
import TestSupport
import Testing

@testable import Commands
@testable import ServerSettings

@Suite("mint and inspect")
struct MintCommandTests {
  static let now = 1_790_000_000

  static func mint(
    _ keyFile: String, team: String = "TEAM123456", keyID: String? = nil, ttl: String? = nil, origins: [String] = [],
    isJSON: Bool = false
  ) throws -> CommandResult {
    let options = ["--key-file", keyFile, "--team-id", team] + origins.flatMap { ["--origin", $0] }
    let optional = [("--key-id", keyID), ("--ttl", ttl)].flatMap { name, value in value.map { [name, $0] } ?? [] }
    return try MintCommand.parse(options + optional + (isJSON ? ["--json"] : [])).result(now: now)
  }

  static func inspect(
    _ token: String?, keyFile: String? = nil, origin: String? = nil, isJSON: Bool = false, input: Int32 = -1
  ) throws -> CommandResult {
    let options = [("--key-file", keyFile), ("--origin", origin)].flatMap { name, value in
      value.map { [name, $0] } ?? []
    }
    let token = token.map { ["--", $0] } ?? []
    return try InspectCommand.parse(options + (isJSON ? ["--json"] : []) + token).result(input: input, now: now)
  }

  @Test("mint prints only a token, and inspect accepts this token")
  func roundTrip() throws {
    let key = try KeyFixture()
    let minted = try Self.mint(key.path, ttl: "30d", origins: ["https://App.example.com:443/"])
    #expect(minted.status == .good)
    #expect(minted.output.count == 1 && minted.diagnostics.isEmpty)
    let token = try #require(minted.output.first)
    for keyFile in [nil, key.path, key.plainPath] {
      let inspected = try Self.inspect(token, keyFile: keyFile, origin: "https://app.example.com")
      #expect(inspected.status == .good, "\(inspected)")
      #expect(inspected.output.contains { $0.hasPrefix("kid") && $0.contains("ABC1234567") })
      #expect(inspected.output.contains { $0.contains("(in 30 d)") })
    }
    withExtendedLifetime(key) {}
  }

  @Test("inspect accepts a public key and says whether the signature was verified")
  func publicKey() throws {
    let key = try KeyFixture()
    let token = try #require(try Self.mint(key.path).output.first)
    func file(_ name: String, _ command: String) -> String {
      let path = "\(key.folder)/\(name)"
      #expect(unsafe system("\(command) > \(path) 2>/dev/null && chmod 600 \(path)") == 0)
      return path
    }
    let own = file("public.pem", "openssl pkey -pubout -in \(key.path)")
    let verified = try Self.inspect(token, keyFile: own)
    #expect(verified.status == .good)
    #expect(
      verified.output.last
        == "The token is well-formed, and the given key signed it. Only Apple knows whether it accepts this key and team."
    )
    #expect(
      try Self.inspect(token).output.last
        == "The token is well-formed. The signature is not verified, because --key-file names no key.")
    let curve = "openssl ecparam -genkey -noout -name"
    let another = file("other.pem", "\(curve) prime256v1 | openssl pkey -pubout")
    #expect(try Self.inspect(token, keyFile: another).status == .failed)
    for name in ["secp384r1", "secp256k1"] {
      let wrong = try Self.inspect(token, keyFile: file("\(name).pem", "\(curve) \(name) | openssl pkey -pubout"))
      #expect(wrong.status == .configuration)
      #expect(wrong.diagnostics.first?.contains("is a public key that is damaged or not EC P-256") == true)
    }
    withExtendedLifetime(key) {}
  }

  @Test("inspect fails with status 1 for a refused token")
  func refused() throws {
    let key = try KeyFixture()
    let other = try KeyFixture()
    let token = try #require(try Self.mint(key.path).output.first)
    #expect(try Self.inspect(token, keyFile: other.path).status == .failed)
    #expect(try Self.inspect(String(token.dropLast(4)), keyFile: key.path).status == .failed)
    #expect(try Self.inspect("nonsense").status == .failed)
    #expect(try Self.inspect("").output.last == "Apple would refuse it.")
    withExtendedLifetime((key, other)) {}
  }

  @Test("inspect reads standard input and refuses an endless input")
  func standardInput() throws {
    let key = try KeyFixture()
    let token = try #require(try Self.mint(key.path).output.first)
    let file = "\(key.folder)/token"
    #expect(unsafe system("printf '%s\\n' \(token) > \(file)") == 0)
    let descriptor = unsafe open(file, O_RDONLY)
    defer { close(descriptor) }
    #expect(try Self.inspect(nil, keyFile: key.path, input: descriptor).status == .good)
    let endless = unsafe open("/dev/zero", O_RDONLY)
    defer { close(endless) }
    #expect(
      try Self.inspect(nil, input: endless)
        == CommandResult(.usage, diagnostics: ["The token on standard input is too large."]))
  }

  @Test("mint --json prints the document of GET /token, and inspect --json prints a report")
  func json() throws {
    let key = try KeyFixture()
    let document = try #require(try Self.mint(key.path, origins: ["https://b.example"], isJSON: true).output.first)
    let members = try JSON5Parser.parse(document)
    #expect(members["issuedAt"] == .whole(Self.now - 60))
    #expect(members["expiresAt"] == .whole(Self.now + 43_200))
    #expect(members["expiresIn"] == .whole(43_200))
    #expect(members["refreshAfter"] == .whole(Self.now + 21_600))
    #expect(members["origin"] == ["https://b.example"])
    let token = try #require(members["token"]?.string).text
    let report = try #require(try Self.inspect(token, keyFile: key.path, isJSON: true).output.first)
    let result = try JSON5Parser.parse(report)
    #expect(result["acceptable"] == true)
    #expect(result["kid"] == "ABC1234567")
    withExtendedLifetime(key) {}
  }

  @Test(
    "a key among the arguments is refused, and a long path or user token is not",
    arguments: [
      (["serve", "--config", key], true), (["serve", "--config=\(key)"], true), (["--\(key)=="], true), ([key], true),
      (["doctor", "--origin=\(key)"], true), (["doctor", "--user-token=MIG\(key)"], true),
      (["serve", "--user-token", key], true), (["mint", "--key-file=-----BEGIN PRIVATE KEY-----\na=="], true),
      (["serve", "--config=/\(key)"], false), (["serve", "--config", "/\(key)"], false),
      (["doctor", "--user-token=\(key)"], false), (["doctor", "--user-token", key], false),
    ])
  func misplacedKeys(_ arguments: [String], _ isRefused: Bool) {
    #expect((MisplacedKey.refusal(of: arguments) != nil) == isRefused)
  }

  private static let key = String(repeating: "Ab1/", count: 40)

  @Test("a wrong argument has the status usage, and a wrong key has the status configuration")
  func statuses() throws {
    let key = try KeyFixture()
    #expect(try Self.mint(key.path, team: "x").status == .usage)
    #expect(try Self.mint(key.path, keyID: "x").status == .usage)
    #expect(try Self.mint(key.path, ttl: "1y").status == .usage)
    #expect(
      try Self.mint(key.path, ttl: "59s").diagnostics == [
        "The lifetime \"59s\" is out of range; write a duration such as \"45s\", \"15m\", \"12h\" or \"30d\", "
          + "from 1 minute to 15777000 seconds (six months)."
      ])
    #expect(try Self.mint(key.path, ttl: "183d").status == .usage)
    #expect(try Self.mint(key.path, origins: ["https://*.example"]).status == .usage)
    #expect(try Self.mint(key.path, keyID: "XYZ1234567").status == .configuration)
    #expect(try Self.mint(key.plainPath).status == .configuration)
    #expect(try Self.mint(key.plainPath, keyID: "XYZ1234567").status == .good)
    #expect(try Self.mint("/nonexistent").status == .configuration)
    #expect(try Self.inspect("a.b.c", keyFile: "/nonexistent").status == .configuration)
    #expect(try Self.inspect("a.b.c", origin: "x").status == .usage)
    withExtendedLifetime(key) {}
  }
}
