import DeveloperToken
import TestSupport
import Testing

@testable import ServerSettings

@Suite("The settings of a signer")
struct SignerSettingsTests {
  private static func file(_ signer: String, _ more: String = "keyID: 'KEY1234567'", _ rest: String = "") -> String {
    "{ musickit: { teamID: 'TEAM123456', signer: \(signer), \(more) }, access: { anonymous: { token: true } } \(rest) }"
  }

  private static func signer(_ file: String, _ environment: [String: String] = [:]) throws -> Settings.MusicKit.Signer?
  {
    let keys = try SettingsFixture(file).load(environment).settings.musickit.keys
    guard case .remote(let signer, let id) = keys.active, id.description == "KEY1234567" else { return nil }
    return signer
  }

  @Test("name an agent, relative to the file, or a command with its arguments")
  func places() throws {
    let agent = try #require(try Self.signer(Self.file("{ agent: 'agent.sock', publicKeyFile: 'public.pem' }")))
    #expect(agent.place == .agent(socket: "/tmp/agent.sock"))
    #expect(agent.publicKeyFile == "/tmp/public.pem" && agent.timeout == .seconds(5))
    let command = try #require(
      try Self.signer(
        Self.file("{ command: ['/bin/sign', '--key', 'a b'], publicKeyFile: '/k/public.pem', timeout: '30s' }")))
    #expect(command.place == .command(["/bin/sign", "--key", "a b"]) && command.timeout == .seconds(30))
  }

  @Test("come from the environment alone")
  func environment() throws {
    let file = "{ access: { anonymous: { token: true } } }"
    let common = [
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_ID": "KEY1234567",
      "MUSICKIT_SIGNER_PUBLIC_KEY_FILE": "/k/public.pem", "MUSICKIT_SIGNER_TIMEOUT": "100ms",
    ]
    let agent = try Self.signer(file, common.merging(["MUSICKIT_SIGNER_AGENT": "/run/agent"]) { $1 })
    #expect(agent?.place == .agent(socket: "/run/agent") && agent?.timeout == .milliseconds(100))
    let command = try Self.signer(file, common.merging(["MUSICKIT_SIGNER_COMMAND": "['/bin/sign', 'x']"]) { $1 })
    #expect(command?.place == .command(["/bin/sign", "x"]))
  }

  @Test(
    "name the problem and the remedy",
    arguments: [
      (
        "{ publicKeyFile: 'p' }", "keyID: 'KEY1234567'",
        "musickit.signer: has neither agent nor command; write the path of an agent's socket as musickit.signer.agent, "
          + "or musickit.signer.command."
      ),
      (
        "{ agent: '/a', command: ['/b'], publicKeyFile: 'p' }", "keyID: 'KEY1234567'",
        "musickit.signer.command: is set, and so is musickit.signer.agent; keep one of the two."
      ),
      (
        "{ agent: '/a' }", "keyID: 'KEY1234567'",
        "musickit.signer.publicKeyFile: is not set; write the path of the public half of the signer's key, here or as "
          + "MUSICKIT_SIGNER_PUBLIC_KEY_FILE."
      ),
      (
        "{ agent: '/a', publicKeyFile: 'p' }", "",
        "musickit.keyID: is not set; write the 10-character ID of the key that the signer has, here or as "
          + "MUSICKIT_KEY_ID."
      ),
      (
        "{ agent: '/a', publicKeyFile: 'p' }", "keyID: 'KEY1234567', keyFile: 'AuthKey_KEY1234567.p8'",
        "musickit.signer: is set, and so is musickit.keyFile; keep one of the two."
      ),
      (
        "{ agent: '/a', publicKeyFile: 'p' }", "keyID: 'KEY1234567', key: 'k'",
        "musickit.signer: is set, and so is musickit.key; keep one of the two."
      ),
      (
        "{ agent: '/a', publicKeyFile: 'p' }", "keyID: 'KEY1234567', keys: [{ file: 'k', state: 'active' }]",
        "musickit.signer: is set, and so is musickit.keys; keep one of the two."
      ),
      (
        "{ agent: '/a', publicKeyFile: 'p' }", "keyID: 'TEAM123456'",
        "musickit.keyID: is the same as musickit.teamID; write the key's own ID, the one in its file name "
          + "AuthKey_<KEYID>.p8."
      ),
      (
        "{ command: ['sign'], publicKeyFile: 'p' }", "keyID: 'KEY1234567'",
        "musickit.signer.command: begins with \"sign\", which is no absolute path; write the program's path from the "
          + "root; no shell looks for it."
      ),
      (
        "{ command: [], publicKeyFile: 'p' }", "keyID: 'KEY1234567'",
        "musickit.signer.command: is empty; write the path of the program first."
      ),
      (
        "{ command: 'sign', publicKeyFile: 'p' }", "keyID: 'KEY1234567'",
        "musickit.signer.command: is a string; write a list such as [\"/usr/local/bin/sign\", \"music\"]."
      ),
      (
        "{ agent: '/a', publicKeyFile: 'p', timeout: '31s' }", "keyID: 'KEY1234567'",
        "musickit.signer.timeout: \"31s\" is out of range; write a duration such as \"500ms\", \"15m\", \"12h\" or "
          + "\"30d\", from 100 milliseconds to 30 seconds."
      ),
    ])
  func errors(_ signer: String, _ more: String, _ error: String) throws {
    #expect(try SettingsFixture.errors(Self.file(signer, more)) == [error])
  }

  @Test("exclude a shared store, whose secret comes from the private key")
  func sharedStore() throws {
    let file = Self.file(
      "{ agent: '/a', publicKeyFile: 'p' }", "keyID: 'KEY1234567'", ", shared: { url: 'redis://127.0.0.1' }")
    #expect(
      try SettingsFixture.errors(file) == [
        "musickit.signer: is set, and so is shared.url: the replicas derive their common secret from the private key, "
          + "which a signer does not give them; write musickit.keyFile, or remove shared.url."
      ])
  }

  @Test("are checked with the file and the program that they name, which nothing runs; the file is no secret")
  func files() throws {
    let directory = try TemporaryDirectory()
    let mark = directory.path(of: "mark")
    let program = try directory.write("#!/bin/sh\ntouch \(mark)\n", to: "sign", mode: 0o700)
    let publicKey = try directory.write(try KeyPair().publicPEM, to: "public.pem", mode: 0o644)
    func load(_ signer: String) throws -> NamedFiles {
      try SettingsFixture(Self.file(signer)).load().draft.files
    }
    let files = try load("{ command: ['\(program)'], publicKeyFile: '\(publicKey)' }")
    let parts = files.load()
    #expect(parts.errors.isEmpty && parts.warnings.isEmpty && parts.keys?.active.remote != nil)
    #expect(files.exposedSecrets.isEmpty)
    #expect(files.paths.map(\.path) == [publicKey])
    #expect(throws: TestFailure.self) { try TextFile.read(mark) }
    let text = try directory.write("", to: "text", mode: 0o600)
    for (path, problem) in [
      ("/none/sign", "the program \"/none/sign\" cannot be found: No such file or directory; write the path of a"),
      (text, "the file \"\(text)\" is no program that this user may run; let the user run it."),
      (directory.path, "the file \"\(directory.path)\" is no program that this user may run; let the user run it."),
    ] {
      let errors = try load("{ command: ['\(path)'], publicKeyFile: '\(publicKey)' }").load().errors
      #expect(errors.count == 1)
      #expect(errors.first?.description.hasPrefix("musickit.signer.command: \(problem)") == true, "\(errors)")
    }
    let secret = try directory.write(try KeyPair().pem, to: "key.pem")
    let errors = try load("{ agent: '/none', publicKeyFile: '\(secret)' }").load().errors
    #expect(errors.first?.path == "musickit.signer.publicKeyFile")
    #expect(errors.first?.problem.contains("has a private key, and only the signer may have that one") == true)
  }
}
