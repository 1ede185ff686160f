import Glibc
import TestSupport
import Testing

@Suite("check-config")
struct CheckConfigTests {
  @Test("accepts a configuration that serve accepts")
  func good() throws {
    let result = try Ground().run(["check-config"])
    #expect(result.status == 0)
    #expect(result.stderr.isEmpty)
    #expect(result.stdout.contains(Ground.teamID))
  }

  @Test("accepts the configuration of the Kubernetes example")
  func kubernetes() throws {
    let manifests = "\(Repository.path)/deploy/kubernetes"
    let variables = try TextFile.read("\(manifests)/base/deployment.yaml")
      .matches(of: /- name: ([A-Z_]+)\n +value: "?([^"\n]+)/).map { (String($0.output.1), String($0.output.2)) }
    #expect(variables.count == 5)
    let ground = try Ground()
    let result = try withExtendedLifetime(ground) {
      try Program.run(
        ["check-config", "--config", "\(manifests)/overlays/production/config.json5"],
        environment: Dictionary(uniqueKeysWithValues: variables + [("MUSICKIT_KEY_FILE", ground.keyFile)]))
    }
    #expect(result.status == 0, "\(result.stderr)")
    #expect(result.stderr.isEmpty)
  }

  @Test("reports all errors together, each with its path")
  func allErrors() throws {
    let directory = try TemporaryDirectory()
    let file = try directory.write(
      """
      { musickit: { teamID: "short", keyFile: "/nonexistent.p8" }, token: { ttl: "1y" }, server: { port: 70000 },
        sever: {}, log: { level: "loud" } }
      """, to: "config.json5")
    let result = try withExtendedLifetime(directory) { try Program.run(["check-config", "--config", file]) }
    #expect(result.status == 78)
    #expect(result.stdout.isEmpty)
    #expect(result.stderr.contains("there is no setting \"sever\"; the nearest is server."))
    for path in ["musickit.teamID", "token.ttl", "server.port", "log.level", "access"] {
      #expect(
        result.stderr.split(separator: "\n").contains { $0.hasPrefix(path) }, "\(path) is missing in \(result.stderr)")
    }
  }

  @Test("reports an invalid key")
  func badKey() throws {
    let ground = try Ground()
    try ground.directory.write("nothing", to: "AuthKey_\(Ground.keyID).p8")
    let result = try ground.run(["check-config"])
    #expect(result.status == 78)
    #expect(result.stderr.hasPrefix("musickit.keyFile"))
  }

  @Test("reports a certificate that serve refuses")
  func badCertificate() throws {
    let ground = try Ground()
    var settings = try ground.tlsSettings()
    settings["SERVER_TLS_KEY_FILE"] = try ground.directory.write(try KeyPair().pem, to: "other.key")
    let result = try ground.run(["check-config"], settings)
    #expect(result.status == 78)
    #expect(result.stderr.contains("server.tls"))
  }

  @Test("reports an audit file that is a directory, as serve does", arguments: ["check-config", "serve"])
  func auditDirectory(_ command: String) throws {
    let ground = try Ground()
    let result = try ground.run([command], ["AUDIT_FILE": ground.directory.path])
    #expect(result.status == 78)
    #expect(
      result.stderr.hasPrefix("audit.file: the file \"\(ground.directory.path)\" is a directory; write "),
      "\(result.stderr)")
    #expect(result.stderr.split(separator: "\n").count == 1)
  }

  @Test("reports a key set file that contains no key set, as serve does", arguments: ["check-config", "serve"])
  func keySetFile(_ command: String) throws {
    let ground = try Ground()
    let page = try ground.directory.write("<html>", to: "page")
    let result = try ground.run(
      [command],
      ["ACCESS_CLIENTS": "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: '\(page)' } }]"])
    #expect(result.status == 78)
    #expect(
      result.stderr.hasPrefix("access.clients[0].jwt.jwksFile: the file \"\(page)\" is a web page; write "),
      "\(result.stderr)")
    #expect(result.stderr.split(separator: "\n").count == 1)
  }

  @Test("accepts the example configurations of the project", arguments: ["minimal", "example"])
  func examples(_ name: String) throws {
    let directory = try TemporaryDirectory()
    try directory.write(try KeyPair().pem, to: "AuthKey_ABC1234567.p8")
    // The examples name the key file relative to themselves.
    let file = try directory.write(try TextFile.read("\(Repository.path)/config/\(name).json5"), to: "config.json5")
    let result = try run(Program.path, ["check-config", "--config", file], environment: [:])
    #expect(result.status == 0, "\(result.stderr)")
    #expect(result.stderr.isEmpty)
  }

  @Test(
    "reads a configuration that arrives through a pipe in parts", arguments: [false, true])
  func pipe(_ isGood: Bool) throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "pipe")
    let made = unsafe mkfifo(path, 0o600)
    try #require(made == 0)
    let check = try ChildProcess(
      Program.path, ["check-config", "--config", path], environment: ground.settings.merging(["LOG_LEVEL": ""]) { $1 })
    // This call returns when the other end is open for reading.
    let writer = unsafe open(path, O_WRONLY | O_CLOEXEC)
    try #require(writer >= 0)
    for part in ["{ token: { ttl: ", isGood ? "'2h' } }" : "'2y' } }"] {
      let bytes = Array(part.utf8)
      let count = unsafe write(writer, bytes, bytes.count)
      #expect(count == bytes.count)
    }
    close(writer)
    #expect(check.wait() == (isGood ? 0 : 78))
    #expect(check.standardError.contains("token.ttl") == !isGood, "\(check.standardError)")
  }
}
