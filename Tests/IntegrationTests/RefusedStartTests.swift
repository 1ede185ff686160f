import TestSupport
import Testing

@Suite("The start of a server")
struct RefusedStartTests {
  @Test("without access for any client fails, and the error explains how to grant access")
  func noAccess() throws {
    let result = try Ground().run(["serve"], ["ACCESS_ANONYMOUS": ""])
    #expect(result.status == 78)
    #expect(result.stderr.contains("no client has access"))
    #expect(result.stderr.contains("--unsafe-allow-anonymous") && result.stderr.contains("ACCESS_ANONYMOUS"))
    #expect(result.stdout.isEmpty)
  }

  /// Each variable is an error, whether its value is true or false.
  @Test(
    "with a variable of an absent anonymous policy fails",
    arguments: [
      ["ACCESS_ANONYMOUS_CATALOG": "false"], ["ACCESS_ANONYMOUS_CATALOG": "true"], ["ACCESS_ANONYMOUS_ME": "false"],
      ["ACCESS_ANONYMOUS_TTL": "1h"], ["ACCESS_ANONYMOUS_TOKEN": "false"],
    ])
  func variableWithoutPolicy(_ variable: [String: String]) throws {
    let result = try Ground().run(["serve"], variable.merging(["ACCESS_ANONYMOUS": ""]) { $1 })
    #expect(result.status == 78)
    let name = try #require(variable.keys.first)
    #expect(
      result.stderr.contains("(\(name)): changes the anonymous policy, which does not exist; write"))
    #expect(result.stdout.isEmpty)
  }

  @Test("with an anonymous policy that grants nothing fails")
  func worthlessPolicy() throws {
    let result = try Ground().run(["serve"], ["ACCESS_ANONYMOUS": "{ catalog: false }"])
    #expect(result.status == 78)
    #expect(result.stderr.contains("access.anonymous (ACCESS_ANONYMOUS): grants nothing; write token: true"))
  }

  @Test("on an address in use fails with a status of its own, and the error names the settings")
  func addressInUse() throws {
    let ground = try Ground()
    let server = try ground.serve()
    let second = try ground.run(["serve"], ["SERVER_PORT": "\(server.port)"])
    #expect(second.status == 75)
    #expect(second.stderr.contains("another program listens there already"))
    #expect(second.stderr.contains("\(server.port)"))
    #expect(
      second.stderr.hasSuffix(
        "The settings are server.host (SERVER_HOST, --host) and server.port (SERVER_PORT, --port).\n"))
    let admin = try ground.run(["serve"], ["ADMIN_PORT": "\(server.port)", "SERVER_PORT": "0"])
    #expect(admin.status == 75)
    #expect(admin.stderr.hasSuffix("The settings are admin.host (ADMIN_HOST) and admin.port (ADMIN_PORT).\n"))
    for (command, flags) in [
      ("demo", "The flags --host ADDRESS and --port N choose the address."),
      ("sandbox", "The flag --port N chooses the port."),
    ] {
      let result = try Program.run([command, "--port", "\(server.port)"])
      #expect(result.status == 75)
      #expect(result.stderr.hasSuffix("or choose another address or port. \(flags)\n"))
    }
    #expect(try server.request("/token").status == 200, "the first one is not disturbed")
  }

  @Test("on an address in use fails with several loops, because a shared port would halve the traffic")
  func addressInUseByLoops() throws {
    let ground = try Ground()
    let server = try ground.serve(["SERVER_LOOPS": "2"])
    #expect(try ground.run(["serve"], ["SERVER_PORT": "\(server.port)", "SERVER_LOOPS": "2"]).status == 75)
  }

  @Test("on an address of another machine fails with a message")
  func foreignAddress() throws {
    let result = try Ground().run(["serve"], ["SERVER_HOST": "192.0.2.1"])
    #expect(result.status == 75)
    #expect(result.stderr.contains("no such address"))
  }

  @Test("with a certificate and another certificate's key fails with a message")
  func foreignCertificateKey() throws {
    let ground = try Ground()
    var settings = try ground.tlsSettings()
    settings["SERVER_TLS_KEY_FILE"] = try ground.directory.write(try KeyPair().pem, to: "other.key")
    let result = try ground.run(["serve"], settings)
    #expect(result.status == 78)
    #expect(result.stderr.split(separator: "\n").count == 1)
    #expect(result.stderr.contains("other.key") || result.stderr.contains("tls.crt"))
  }

  @Test("with a certificate and no key fails, and the error names the missing setting")
  func missingCertificateKey() throws {
    let ground = try Ground()
    let result = try ground.run(["serve"], ["SERVER_TLS_CERTIFICATE_FILE": try ground.certificate().file])
    #expect(result.status == 78)
    #expect(result.stderr.contains("server.tls.keyFile"))
  }

  @Test("with an unknown setting in the file fails, and the error names the nearest setting")
  func unknownSetting() throws {
    let ground = try Ground()
    let file = try ground.directory.write("{ server: { prot: 1 } }", to: "config.json5")
    let result = try ground.run(["serve", "--config", file])
    #expect(result.status == 78)
    #expect(result.stderr.contains("\"prot\"") && result.stderr.contains("server.port"))
  }

  @Test("with a missing configuration file fails")
  func missingFile() throws {
    let ground = try Ground()
    let result = try ground.run(["serve", "--config", ground.directory.path(of: "none.json5")])
    #expect(result.status == 78)
    #expect(result.stderr.contains("none.json5"))
  }
}
