import Cryptography
import TLS
import TestSupport
import Testing

@testable import Redis

@Suite("A client of a real redis-server", .otherPrograms)
struct RedisClientTests {
  @Test("sends commands and gets their replies in order")
  func commands() throws {
    let server = try RedisServer()
    let client = try TestRedisClient(.init(server))
    client.waitUntilReady()
    #expect(try client.send("SET", "a", "1\r\n2") == .success(.text(Array("OK".utf8))))
    #expect(try client.send("GET", "a") == .success(.text(Array("1\r\n2".utf8))))
    #expect(try client.send("GET", "b") == .success(.null))
    #expect(try client.send("LPUSH", "a", "x").failure?.isRefusal(beginning: "WRONGTYPE") == true)
    #expect(try server.run("CLIENT", "LIST").contains("name=musickit-token-server"))
  }

  @Test("runs a script by its digest, and by its text where the server does not have it")
  func scripts() throws {
    let server = try RedisServer()
    let client = try TestRedisClient(.init(server))
    client.waitUntilReady()
    let script = RedisScript("return {KEYS[1], ARGV[1], #ARGV[1]}")
    for _ in 1...2 {
      let reply = try client.run(script, keys: ["k"], ["é"])
      #expect(reply == .success(.array([.text(Array("k".utf8)), .text(Array("é".utf8)), .integer(2)])))
    }
    let calls = try server.run("INFO", "commandstats")
    #expect(calls.contains("cmdstat_evalsha:calls=2") && calls.contains("cmdstat_eval:calls=1"))
    try server.run("SCRIPT", "FLUSH")
    #expect(try client.run(script, keys: ["k"], ["a"]).failure == nil)
  }

  @Test("logs in with a password, as a user, and in a database")
  func login() throws {
    let server = try RedisServer([
      "--requirepass", "open sesame", "--user", "app", "on", ">geheim", "~*", "&*", "+@all",
    ])
    var configuration = RedisClient.Configuration(server)
    configuration.password = SecretBytes("open sesame")
    let usual = try TestRedisClient(configuration)
    usual.waitUntilReady()
    #expect(try usual.send("ACL", "WHOAMI") == .success(.text(Array("default".utf8))))
    (configuration.user, configuration.password, configuration.database) = ("app", SecretBytes("geheim"), 3)
    let named = try TestRedisClient(configuration)
    named.waitUntilReady()
    #expect(try named.send("ACL", "WHOAMI") == .success(.text(Array("app".utf8))))
    #expect(try named.send("SET", "a", "1").failure == nil)
    #expect(try usual.send("GET", "a") == .success(.null))
  }

  @Test(
    "says why it cannot log in, without the password",
    arguments: [
      (nil, "It wants a password. Write shared.passwordFile."),
      ("wrong one", "It refuses the user or the password."),
    ])
  func refusedLogin(_ password: String?, _ reason: String) throws {
    let server = try RedisServer(["--requirepass", "open sesame"])
    var configuration = RedisClient.Configuration(server)
    configuration.password = password.map { SecretBytes($0) }
    let client = try TestRedisClient(configuration)
    #expect(client.reason() == reason)
  }

  @Test("says which command a user may not use")
  func missingPermission() throws {
    let server = try RedisServer(["--user", "app", "on", ">geheim", "~*", "resetchannels", "+@all"])
    var configuration = RedisClient.Configuration(server)
    (configuration.user, configuration.password) = ("app", SecretBytes("geheim"))
    configuration.channel = Array("c".utf8)
    let client = try TestRedisClient(configuration)
    #expect(client.reason().hasPrefix("It refuses the command SUBSCRIBE: “NOPERM"))
  }

  @Test("receives the messages of its channel, also after a restart of the server")
  func messages() throws {
    let server = try RedisServer()
    var configuration = RedisClient.Configuration(server)
    configuration.channel = Array("c".utf8)
    let client = try TestRedisClient(configuration)
    client.waitUntilReady()
    try server.run("PUBLISH", "c", "one")
    try server.run("PUBLISH", "d", "of another channel")
    #expect(try client.send("PUBLISH", "c", "two").failure == nil)
    wait(for: "two messages") { client.messages.count == 2 }
    server.kill()
    wait(for: "the end of the connection") { !client.isReady }
    try server.start()
    client.waitUntilReady()
    try server.run("PUBLISH", "c", "three")
    wait(for: "the third message") { client.messages == ["one", "two", "three"] }
    // Between them the client may fail to connect more than once, and each time says why.
    let problems = client.problems
    #expect(problems.count >= 3 && problems.first == .some(nil) && problems.last == .some(nil))
    #expect(problems.dropFirst().dropLast().allSatisfy { $0 != nil })
  }

  @Test("fails commands at once while the server does not respond, and continues when it does")
  func pausedServer() throws {
    let server = try RedisServer()
    var configuration = RedisClient.Configuration(server)
    configuration.limits.silence = .seconds(60)
    let client = try TestRedisClient(configuration, isPatient: false)
    client.waitUntilReady()
    server.pause()
    #expect(try client.send("PING", within: .milliseconds(20)) == .failure(.timedOut))
    wait(for: "a stall") { !client.isReady }
    #expect(try client.send("PING") == .failure(.unavailable))
    #expect(client.reason() == "It has stopped to respond.")
    server.resume()
    client.waitUntilReady()
    #expect(try client.send("ECHO", "a") == .success(.text(Array("a".utf8))), "The late reply belongs to no other.")
  }

  @Test("ends a connection on which the server stays silent, and connects again")
  func silentServer() throws {
    let server = try RedisServer()
    let client = try TestRedisClient(.init(server), isPatient: false)
    client.waitUntilReady()
    server.pause()
    #expect(try client.send("PING", within: .milliseconds(20)) == .failure(.timedOut))
    wait(for: "the end of the connection") {
      client.problems.contains("It has stopped to respond.")
    }
    server.resume()
    client.waitUntilReady()
    #expect(try client.send("PING").failure == nil)
  }

  @Test("looks for another server when its own becomes a read-only replica")
  func failover() throws {
    let server = try RedisServer()
    let client = try TestRedisClient(.init(server))
    client.waitUntilReady()
    try server.run("REPLICAOF", "127.0.0.1", "1")
    #expect(try client.send("SET", "a", "1").failure?.isRefusal(beginning: "READONLY") == true)
    wait(for: "the end of the connection") {
      client.problems.contains("It is a read-only replica.")
    }
    try server.run("REPLICAOF", "NO", "ONE")
    client.waitUntilReady()
    #expect(try client.send("SET", "a", "1").failure == nil)
  }

  @Test("speaks TLS, and only to a server that it trusts")
  func encrypted() throws {
    let directory = try TemporaryDirectory()
    let authority = try Certificate("Test CA", key: KeyPair(), isAuthority: true)
    let leaf = try Certificate(key: KeyPair(), issuer: authority)
    let port = try Self.freePort()
    let server = try RedisServer([
      "--tls-port", "\(port)", "--tls-auth-clients", "no",
      "--tls-cert-file", try directory.write(leaf.pem, to: "leaf.pem"),
      "--tls-key-file", try directory.write(leaf.key.pem, to: "key.pem"),
      "--tls-ca-cert-file", try directory.write(authority.pem, to: "ca.pem"),
    ])
    var configuration = RedisClient.Configuration(.tcp(host: "localhost", port: port))
    configuration.tls = try TLSClientContext(authorities: PEMFile(directory.path(of: "ca.pem")))
    let client = try TestRedisClient(configuration)
    client.waitUntilReady()
    #expect(try client.send("PING") == .success(.text(Array("PONG".utf8))))
    let other = try Certificate("Other CA", key: KeyPair(), isAuthority: true)
    configuration.tls = try TLSClientContext(authorities: PEMFile(directory.write(other.pem, to: "other.pem")))
    let stranger = try TestRedisClient(configuration)
    #expect(stranger.reason().contains("certificate"))
    withExtendedLifetime(server) {}
  }

  /// A port on which nothing listens.
  private static func freePort() throws -> UInt16 { try ScriptedPeer().port }
}

extension Result {
  var failure: Failure? {
    guard case .failure(let error) = self else { return nil }
    return error
  }
}

extension RedisError {
  func isRefusal(beginning text: String) -> Bool {
    guard case .refused(let words) = self else { return false }
    return words.starts(with: Array(text.utf8))
  }
}
