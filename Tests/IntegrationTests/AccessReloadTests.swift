import Bytes
import Glibc
import JSON
import TestSupport
import Testing

@Suite("A reload of the clients")
struct AccessReloadTests {
  /// Two policies that differ in every value: a request judged by a mixture of both gets a response that neither policy
  /// gives.
  private static func policy(_ name: String, _ key: String, _ ttl: Int, _ origin: String) throws -> String {
    """
    { access: { clients: [
      { id: "\(name)", apiKey: { sha256: "\(try AccessGround.sha256(key))" }, ttl: "\(ttl)s", origins: ["\(origin)"] },
    ] } }
    """
  }

  @Test("under load never mixes two policies for one request")
  func load() throws {
    let ground = try Ground()
    let policies = [
      try Self.policy("one", "key-one", 1000, "https://one.example"),
      try Self.policy("two", "key-two", 2000, "https://two.example"),
    ]
    let file = try ground.directory.write(policies[0], to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file, "ACCESS_ANONYMOUS": "", "LOG_LEVEL": "notice"])
    let load = try ChildProcess(
      Repository.python, [Repository.script("access_load.py"), "\(server.port)"], holdsInput: true)
    #expect(try load.line() == "running")
    for reload in 1...20 {
      _ = try ground.directory.write(policies[reload % 2], to: "config.json5")
      server.process.signal(SIGHUP)
      try server.process.waitForErrors("Configuration reloaded", count: reload)
    }
    load.closeInput()
    let report = try #require(try load.line().flatMap { JSONReader.read(Array($0.utf8)) })
    #expect(report["wrong"] == .array([]), "\(report)")
    #expect(try #require(report["one"]?.integer) > 0)
    #expect(try #require(report["two"]?.integer) > 0)
    #expect(server.stop() == 0)
  }

  @Test("adds a new client and removes an old client")
  func clients() throws {
    let ground = try Ground()
    let file = try ground.directory.write(
      try Self.policy("one", "key-one", 1000, "https://one.example"), to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file, "ACCESS_ANONYMOUS": ""])
    func status(_ key: String, _ origin: String) throws -> Int {
      try server.request("/token", "-H", "X-API-Key: \(key)", "-H", "Origin: \(origin)").status
    }
    #expect(try status("key-one", "https://one.example") == 200)
    #expect(try status("key-two", "https://two.example") == 401)
    _ = try ground.directory.write(try Self.policy("two", "key-two", 1000, "https://two.example"), to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Configuration reloaded")
    #expect(try status("key-one", "https://one.example") == 401)
    #expect(try status("key-two", "https://two.example") == 200)
  }

  @Test("with an error in the list changes nothing")
  func fault() throws {
    let ground = try Ground()
    let file = try ground.directory.write(
      try Self.policy("one", "key-one", 1000, "https://one.example"), to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file, "ACCESS_ANONYMOUS": ""])
    _ = try ground.directory.write(
      "{ access: { clients: [{ id: 'one', apiKey: { sha256: 'x' } }] } }", to: "config.json5")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("access.clients[0].apiKey.sha256")
    let response = try server.request("/token", "-H", "X-API-Key: key-one", "-H", "Origin: https://one.example")
    #expect(response.status == 200)
  }

  @Test("to another file with the same keys refuses no valid JWT")
  func keys() throws {
    let provider = try IdentityProvider()
    let ground = try Ground()
    let keySet = try provider.keySet()
    let policies = try ["a", "b"].map { name in
      let file = try ground.directory.write(keySet, to: "\(name).json")
      let jwt = "issuer: 'https://id.example.com/', jwksFile: '\(file)'"
      return """
        { access: { clients: [ { id: "one", jwt: { \(jwt), audience: "music" } },
          { id: "two", jwt: { \(jwt), audience: "films" } } ] } }
        """
    }
    let file = try ground.directory.write(policies[0], to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file, "ACCESS_ANONYMOUS": "", "LOG_LEVEL": "notice"])
    let load = try ChildProcess(
      Repository.python, [Repository.script("bearer_load.py"), "\(server.port)", try provider.mint()], holdsInput: true)
    #expect(try load.line() == "running")
    for reload in 1...20 {
      _ = try ground.directory.write(policies[reload % 2], to: "config.json5")
      server.process.signal(SIGHUP)
      try server.process.waitForErrors("Configuration reloaded", count: reload)
    }
    load.closeInput()
    let report = try #require(try load.line().flatMap { JSONReader.read(Array($0.utf8)) })
    #expect(report.members.map(\.name) == ["200"], "\(report)")
    #expect(server.stop() == 0)
  }
}
