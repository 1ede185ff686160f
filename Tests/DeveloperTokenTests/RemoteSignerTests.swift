import Cryptography
import Glibc
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("A signer behind ssh-agent's protocol", .otherPrograms)
struct RemoteSignerTests {
  private let directory: TemporaryDirectory
  private let key: SigningKey

  init() throws {
    directory = try TemporaryDirectory()
    key = try Samples.key()
  }

  private func signer(_ agent: ScriptedAgent, timeout: Duration = .seconds(30)) throws -> RemoteSigner {
    try RemoteSigner(.agent(socket: agent.socket), key, in: directory, timeout: timeout)
  }

  @Test("makes tokens that Apple's rules and the public key accept, with a real ssh-agent")
  func realAgent() throws {
    let pair = try KeyPair()
    // The key of the .p8 file as it is, beside another one.
    let agent = try SSHAgent(keys: [KeyPair().pem, pair.pem])
    let file = try directory.write(pair.publicPEM, to: "public.pem")
    let key = try SigningKey(
      of: .agent(socket: agent.socket), publicKeyFile: file, timeout: .seconds(30), keyID: Samples.keyID())
    let minter = try TokenMinter(key: key, team: Samples.team(), policy: TokenPolicy())
    for ttl in 60..<80 {
      let token = try minter.token(ttl: ttl, now: Samples.now)
      let inspection = Inspector(key: key.verificationKey, now: Samples.now).inspect(token.string)
      #expect(inspection.isAcceptable, "\(inspection.checks)")
    }
    #expect(minter.signatureCount == 20)
  }

  @Test("reads the agent's own line of the public key, and has the fingerprint of the private key")
  func lineOfAgent() throws {
    let pair = try KeyPair()
    let agent = try SSHAgent(keys: [pair.pem])
    let file = try directory.write(try agent.list(), to: "id.pub")
    let key = try SigningKey(
      of: .agent(socket: agent.socket), publicKeyFile: file, timeout: .seconds(30), keyID: Samples.keyID())
    let own = try SigningKey(parsing: Samples.secret(pair.pem), keyID: Samples.keyID())
    #expect(key.fingerprint == own.fingerprint)
    try key.remote?.probe()
  }

  @Test("that lacks the key says how to list the keys")
  func missingKey() throws {
    let agent = try SSHAgent(keys: [KeyPair().pem])
    let error = try #require(
      try RemoteSigner(.agent(socket: agent.socket), key, in: directory).error())
    #expect(error.description.hasSuffix("or refused to sign; `ssh-add -L` lists its keys."))
    // It may get the key later: `ssh-add` follows the start of an agent.
    #expect(error.isTemporary)
  }

  @Test(
    "that is hostile gives an error",
    arguments: [
      ([0xFF, 0xFF, 0xFF, 0xFF], "it has sent a message of 4294967295 bytes."),
      ([0, 0, 4, 1] + [UInt8](repeating: 14, count: 1025), "it has sent a message of 1025 bytes."),
      ([0, 0, 0, 0], "it has sent a message of 0 bytes."),
      (ScriptedAgent.string([6]), "it has sent a message of type 6."),
      (ScriptedAgent.string([14]), "it has sent a malformed signature."),
      (ScriptedAgent.string([14, 0, 0, 0, 9, 1]), "it has sent a malformed signature."),
      (ScriptedAgent.response([1], [2], algorithm: "ssh-ed25519"), "it has sent a malformed signature."),
      (ScriptedAgent.response([0xFF], [2]), "it has sent a malformed signature."),
      (ScriptedAgent.response([], [2]), "it has sent a malformed signature."),
      (ScriptedAgent.response([UInt8](repeating: 1, count: 33), [2]), "it has sent a malformed signature."),
      (
        ScriptedAgent.response([1], [2]),
        "gives a signature that does not verify with musickit.signer.publicKeyFile: it is by another key, or not over SHA-256."
      ),
      (ScriptedAgent.string([5]), "or refused to sign; `ssh-add -L` lists its keys."),
    ] as [([UInt8], String)])
  func hostile(_ response: [UInt8], _ end: String) throws {
    let agent = try ScriptedAgent { _ in .send(response) }
    let error = try #require(try signer(agent).error())
    #expect(error.description.hasSuffix(end), "\(error)")
    #expect(error.description.hasPrefix("The agent at “\(agent.socket)” (musickit.signer.agent) "))
    #expect(error.isTemporary == end.contains("ssh-add"))
  }

  @Test("that signs with another key is reported")
  func otherKey() throws {
    let other = try Samples.key()
    let agent = try ScriptedAgent { data in (try? .send(ScriptedAgent.response(data, by: other))) ?? .silence }
    let error = try #require(try signer(agent).error())
    #expect(
      error.description.hasSuffix(
        "gives a signature that does not verify with musickit.signer.publicKeyFile: it is by another key, or not over SHA-256."
      ))
  }

  @Test("that closes midway may sign later", arguments: [[], [0, 0], [0, 0, 0, 99, 14]] as [[UInt8]])
  func closed(_ bytes: [UInt8]) throws {
    let agent = try ScriptedAgent { _ in .close(after: bytes) }
    let error = try #require(try signer(agent).error())
    #expect(error.description.hasSuffix("has closed the connection without a signature."))
    #expect(error.isTemporary)
  }

  @Test(
    "that never responds, or not to the end, ends with the time limit", arguments: [[], [0, 0, 0, 99]] as [[UInt8]])
  func silent(_ bytes: [UInt8]) throws {
    let agent = try ScriptedAgent { _ in bytes.isEmpty ? .silence : .send(bytes) }
    let error = try #require(try signer(agent, timeout: .milliseconds(100)).error())
    #expect(error.description.hasSuffix("within 100 ms; find out what it waits for, or raise musickit.signer.timeout."))
    #expect(error.isTemporary)
  }

  @Test("is back once it signs after a failure, until it fails again")
  func recovery() throws {
    let pair = try KeyPair()
    let key = try SigningKey(parsing: Samples.secret(pair.pem), keyID: Samples.keyID())
    let agent = try SSHAgent(keys: [pair.pem])
    let signer = try RemoteSigner(.agent(socket: agent.socket), key, in: directory, failureLifetime: .zero)
    func fail() throws {
      try agent.removeAll()
      #expect(throws: RemoteSignerError.self) { try signer.probe() }
      try agent.add(pair.pem)
    }
    try signer.probe()
    #expect(!signer.takeRecovery())
    try fail()
    try signer.probe()
    #expect(signer.takeRecovery())
    #expect(!signer.takeRecovery())
    try fail()
    try signer.probe()
    try fail()
    #expect(!signer.takeRecovery())
  }

  @Test("that is not there, or refuses, may sign later")
  func unreachable() throws {
    let advice = "; if an agent has left this socket behind, remove it and start ssh-agent -a with this path."
    let absent = try RemoteSigner(.agent(socket: directory.path(of: "none")), key, in: directory)
    #expect(absent.error()?.description.hasSuffix("; start ssh-agent -a with this path, or correct the path.") == true)
    #expect(absent.error()?.isTemporary == true)
    let path: String
    do {
      let agent = try SSHAgent()
      agent.process.kill()
      path = agent.socket
      let refusing = try RemoteSigner(.agent(socket: path), key, in: directory)
      #expect(refusing.error()?.description.hasSuffix("Connection refused\(advice)") == true)
      #expect(refusing.error()?.isTemporary == true)
    }
    let file = try RemoteSigner(
      .agent(socket: try directory.write("", to: "file")), key, in: directory)
    // The file may be the key, so no message may advise to remove it.
    #expect(file.error()?.description.hasSuffix("non-socket; write the path of the agent's socket.") == true)
    #expect(file.error()?.isTemporary == false)
  }

  @Test("is not asked again while its failure counts")
  func failureCounts() throws {
    let agent = try ScriptedAgent { _ in .send(ScriptedAgent.string([5])) }
    let patient = try RemoteSigner(.agent(socket: agent.socket), key, in: directory, failureLifetime: .seconds(3600))
    let first = patient.error()
    for _ in 0..<3 { #expect(patient.error() == first) }
    #expect(agent.requests == 1 && patient.failure == first)
    let hasty = try RemoteSigner(.agent(socket: agent.socket), key, in: directory, failureLifetime: .zero)
    for _ in 0..<3 { _ = hasty.error() }
    #expect(agent.requests == 4)
  }
}
