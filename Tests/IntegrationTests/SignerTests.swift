import Glibc
import JSON
import TestSupport
import Testing

/// A server whose key is in a real ssh-agent, or behind a command.
private struct SignerGround {
  let ground: Ground
  let agent: SSHAgent
  let publicKeyFile: String

  init() throws {
    ground = try Ground()
    agent = try SSHAgent(keys: [ground.key.pem])
    publicKeyFile = try ground.publicKeyFile()
  }

  /// The required settings without a key.
  var keyless: [String: String] {
    ground.patientSettings.merging(["MUSICKIT_KEY_FILE": "", "MUSICKIT_KEY_ID": Ground.keyID]) { $1 }
  }

  /// The settings of a server with the agent.
  var agentSettings: [String: String] {
    keyless.merging([
      "MUSICKIT_SIGNER_AGENT": agent.socket, "MUSICKIT_SIGNER_PUBLIC_KEY_FILE": publicKeyFile,
      "MUSICKIT_SIGNER_TIMEOUT": "30s",
    ]) { $1 }
  }

  /// Writes a script of the shell, which signs with this command.
  func script(_ text: String = "exec openssl dgst -sha256 -sign '$KEY'") throws -> String {
    let text = text.replacing("$KEY", with: ground.keyFile)
    return try ground.directory.write("#!/bin/sh\n\(text)\n", to: "sign", mode: 0o700)
  }

  /// The settings of a server with a script.
  func commandSettings(_ text: String = "exec openssl dgst -sha256 -sign '$KEY'") throws -> [String: String] {
    agentSettings.merging([
      "MUSICKIT_SIGNER_AGENT": "", "MUSICKIT_SIGNER_COMMAND": "['\(try script(text))', 'an argument']",
    ]) { $1 }
  }

  func serve(_ settings: [String: String], _ more: [String: String] = [:]) throws -> RunningServer {
    try withExtendedLifetime((ground.directory, agent)) {
      try RunningServer([], environment: settings.merging(more) { $1 })
    }
  }

  func run(_ command: String, _ settings: [String: String], _ more: [String: String] = [:]) throws -> ProcessResult {
    try Program.run([command], environment: settings.merging(more) { $1 })
  }

  /// Writes a configuration file with these members of `musickit`, and further sections.
  func configure(_ musickit: String, _ more: String = "") throws -> [String: String] {
    let file = try ground.directory.write(
      """
      { musickit: { teamID: '\(Ground.teamID)', \(musickit) }, access: { anonymous: { token: true } },
        catalog: { enabled: false }, \(more) server: { port: 0 }, admin: { port: 0 } }
      """, to: "config.json5")
    return ["MUSICKIT_CONFIG": file]
  }

  var signer: String {
    "keyID: '\(Ground.keyID)', signer: { agent: '\(agent.socket)', publicKeyFile: '\(publicKeyFile)', timeout: '30s' }"
  }

  /// What `inspect` says about the token with the public key.
  func inspect(_ token: String?) throws -> Int32 {
    try Program.run(["inspect", "--key-file", publicKeyFile], input: try #require(token)).status
  }
}

extension RunningServer {
  fileprivate func check(_ name: String) throws -> (status: String?, detail: String?) {
    let check = try admin("/readyz").json?["checks"]?[.init(name)]
    return (check?["status"]?.string, check?["detail"]?.string)
  }
}

@Suite("A server with a signer")
struct SignerTests {
  @Test("gives tokens and catalog responses with a real ssh-agent, in confinement")
  func agent() throws {
    let ground = try SignerGround()
    let emulator = try Emulator(ground.ground)
    let access = ["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]
    let server = try ground.serve(ground.agentSettings.merging(emulator.settings) { $1 }, access)
    for query in ["", "?ttl=3600"] {
      #expect(try ground.inspect(server.request("/token\(query)").token) == 0)
    }
    #expect(try ground.inspect(server.request("/token", "-X", "POST", "-d", "{\"ttl\":1800}").token) == 0)
    #expect(try server.request(CatalogGround.album).status == 200)
    #expect(try emulator.allRequests().last?.developerToken.hasPrefix("accepted: ") == true)
    #expect(try server.admin("/readyz").status == 200)
    // The same token for the same claims.
    #expect(try server.request("/token?ttl=3600").token == server.request("/token?ttl=3600").token)
    #expect(server.stop() == 0)
    #expect(!server.log.contains("not restricted") || server.log.contains("does not offer Landlock"))
  }

  @Test("gives tokens with a command, which gets no secret of the server's and no descriptor, and says so")
  func command() throws {
    let ground = try SignerGround()
    let seen = ground.ground.directory.path(of: "seen")
    let settings = try ground.commandSettings(
      """
      own='\(seen)'.$$; env | sort > $own; ls /proc/self/fd >> $own; echo "$1" >> $own; grep SigIgn /proc/$$/status >> $own
      mv $own '\(seen)'; exec openssl dgst -sha256 -sign '$KEY'
      """
    )
    let server = try ground.serve(
      settings,
      [
        "AWS_REGION": "eu-central-1", "VAULT_ADDR": "https://vault.example.com", "HOME": "/nowhere",
        "ACCESS_CLIENTS": "[{ id: 'a', apiKey: { sha256: '\(String(repeating: "ab", count: 32))' } }]",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret", "FOREIGN_SECRET": "x",
      ])
    #expect(try ground.inspect(server.request("/token").token) == 0)
    let shown = try server.admin("/config").text
    #expect(shown.contains("/sign\"") && !shown.contains("an argument"))
    #expect(server.stop() == 0)
    let lines = try TextFile.read(seen).split(separator: "\n").map(String.init)
    let names = lines.prefix { $0.contains("=") }.map { $0.prefix { $0 != "=" } }
    // The shell adds PWD.
    #expect(Set(names) == ["AWS_REGION", "HOME", "PATH", "PWD", "VAULT_ADDR"], "\(lines)")
    #expect(lines.suffix(6).dropLast() == ["0", "1", "2", "3", "an argument"])
    // The server ignores SIGPIPE (13).
    #expect(UInt64(lines.last?.dropFirst(8) ?? "", radix: 16).map { $0 >> 12 & 1 } == 0)
    let line = server.logLines.compactMap { $0 }.first { $0["message"]?.string == "File access not restricted" }
    #expect(line?["reason"]?.string == "musickit.signer.command runs a program")
  }

  @Test("responds to everything else while the signer hangs, and to tokens with 503 and when to come again")
  func hanging() throws {
    let ground = try SignerGround()
    let server = try ground.serve(
      ground.agentSettings,
      [
        "MUSICKIT_SIGNER_TIMEOUT": "1s", "SERVER_LOOPS": "1",
        "ACCESS_CLIENTS": "[{ id: 'web', origins: ['https://app.example.com'] }]",
      ])
    let present = try #require(try server.request("/token").token)
    ground.agent.process.signal(SIGSTOP)
    // The only loop goes on while the signer is asked.
    let waiting = try server.connect()
    waiting.send("GET /token?ttl=3600 HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example.com\r\n\r\n")
    // A caller that goes away is not refused.
    try server.connect().send("GET /token?ttl=1800 HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example.com\r\n\r\n")
    let health = try server.connect()
    health.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try health.response().status == 200)
    #expect(try server.request("/token").token == present)
    let refusal = try waiting.response()
    #expect(refusal.status == 503 && refusal["Retry-After"] == "5")
    #expect(refusal.errorCode == "no_signing_key")
    #expect(refusal.text.contains(ground.agent.socket) == false)
    #expect(refusal["Cache-Control"] == "no-store")
    #expect(refusal["Access-Control-Allow-Origin"] == "https://app.example.com")
    // Callers still get the token that they share.
    #expect(try server.admin("/readyz").status == 200)
    let check = try server.check("token")
    #expect(check.status == "degraded" && check.detail?.contains("has not signed within 1 s") == true)
    ground.agent.process.signal(SIGCONT)
    try eventually("the server knows that the signer is back") { try server.check("token").status == "ok" }
    #expect(try ground.inspect(server.request("/token?ttl=3600").token) == 0)
    #expect(server.stop() == 0)
    let lines = server.logLines.compactMap { $0 }
    #expect(
      lines.contains { $0["message"]?.string?.hasPrefix("The server cannot make a developer token. The agent") == true }
    )
    #expect(server.auditLines.contains { $0.reason == "not_minted" && $0.client == "web" })
    #expect(!server.auditLines.contains { $0.reason == "signer_busy" })
  }

  @Test("ends with the command that it runs, by one signal or by two", arguments: [1, 2])
  func endOfCommand(_ signals: Int) throws {
    let ground = try SignerGround()
    let (mark, running) = (ground.ground.directory.path(of: "hang"), ground.ground.directory.path(of: "running"))
    let server = try ground.serve(
      ground.commandSettings(
        "if [ -e '\(mark)' ]; then echo $$ > '\(running)'; exec sleep 1000; fi; exec openssl dgst -sha256 -sign '$KEY'"),
      // The drain does not last until the command's time is over.
      ["CATALOG_ENABLED": "false", "SERVER_DRAIN_TIMEOUT": signals == 1 ? "1s" : "60s"])
    _ = try ground.ground.directory.write("", to: "hang")
    let caller = try server.connect()
    caller.send("GET /token?ttl=3600 HTTP/1.1\r\nHost: a\r\n\r\n")
    let process = try waiter(running)
    if signals == 2 {
      server.process.signal(SIGTERM)
      // No port is open any more, so the drain has begun.
      try eventually("the drain has begun") { (try? server.connect()) == nil }
      server.process.signal(SIGTERM)
      #expect(server.process.wait() == 1)
    } else {
      _ = server.stop()
    }
    try eventually("the command has ended") { kill(process, 0) != 0 }
  }

  /// Waits until the script of `waiting` runs, and returns its process.
  private func waiter(_ file: String) throws -> Int32 {
    var process: Int32 = 0
    try eventually("the command runs") {
      process = (try? TextFile.read(file)).flatMap { Int32($0.split(separator: "\n").first ?? "") } ?? 0
      return process > 0
    }
    return process
  }

  /// `hanging`: the number of the signature that hangs. The second one of `doctor` has its time limit.
  @Test(
    "ends with a command that hangs, by a signal during the start",
    arguments: [("serve", 1, 0), ("doctor", 1, 143), ("doctor", 2, 143)])
  func signalDuringStart(_ command: String, _ hanging: Int, _ status: Int32) throws {
    let ground = try SignerGround()
    let (calls, running) = (ground.ground.directory.path(of: "calls"), ground.ground.directory.path(of: "running"))
    let script = """
      echo >> '\(calls)'; if [ $(wc -l < '\(calls)') = \(hanging) ]; then echo $$ > '\(running)'; exec sleep 1000; fi
      exec openssl dgst -sha256 -sign '$KEY'
      """
    let settings = try ground.commandSettings(script)
    let process = try ChildProcess(
      Program.path, [command],
      environment: hanging == 2 ? settings.merging(["MUSICKIT_SIGNER_TIMEOUT": "5s"]) { $1 } : settings)
    let signer = try waiter(running)
    let signalled = ContinuousClock.now
    process.signal(SIGTERM)
    #expect(process.wait() == status, "\(process.standardError)")
    // The signer would have 30 s.
    #expect(ContinuousClock.now - signalled < .seconds(20))
    #expect(process.standardError.isEmpty)
    try eventually("the command has ended") { kill(signer, 0) != 0 }
  }

  @Test("does not start, nor wait for an agent, where another file is in the place of its socket")
  func noSocket() throws {
    let ground = try SignerGround()
    let file = ground.publicKeyFile
    for command in ["serve", "check-config"] {
      let result = try ground.run(command, ground.agentSettings, ["MUSICKIT_SIGNER_AGENT": file])
      #expect(result.status == 78)
      #expect(result.stderr.contains("musickit.signer.agent"), "\(result.stderr)")
      #expect(result.stderr.contains("is not a socket"), "\(result.stderr)")
    }
  }

  @Test("drains at once while a reload waits for a new signer", arguments: [true, false])
  func signalDuringReload(_ bySignal: Bool) throws {
    let ground = try SignerGround()
    let running = ground.ground.directory.path(of: "running")
    let script = """
      if [ $1 = b ]; then echo $$ > '\(running)'; exec sleep 1000; fi
      exec openssl dgst -sha256 -sign '$KEY'
      """
    func settings(_ argument: String) throws -> [String: String] {
      let command = "command: ['\(try ground.script(script))', '\(argument)']"
      return try ground.configure(ground.signer.replacing("agent: '\(ground.agent.socket)'", with: command))
    }
    let server = try ground.serve(settings("a"))
    _ = try settings("b")
    if bySignal { server.process.signal(SIGHUP) }
    let signer = try waiter(running)
    let signalled = ContinuousClock.now
    #expect(server.stop() == 0)
    // The signer would have 30 s.
    #expect(ContinuousClock.now - signalled < .seconds(20))
    #expect(server.log.contains("The server ends, so it has not finished the reload"))
    #expect(!server.log.contains("The new settings are invalid"))
    try eventually("the command has ended") { kill(signer, 0) != 0 }
  }

  @Test("drains at once while Apple Music is to be asked about the key")
  func signalDuringTest() throws {
    let ground = try SignerGround()
    let emulator = try Emulator(ground.ground)
    let (calls, running) = (ground.ground.directory.path(of: "calls"), ground.ground.directory.path(of: "running"))
    // The first signatures are the probe, and the token of the catalog.
    let script = """
      echo >> '\(calls)'; if [ $(wc -l < '\(calls)') = 3 ]; then echo $$ > '\(running)'; exec sleep 1000; fi
      exec openssl dgst -sha256 -sign '$KEY'
      """
    let server = try ground.serve(ground.commandSettings(script).merging(emulator.settings) { $1 })
    _ = try waiter(running)
    let signalled = ContinuousClock.now
    #expect(server.stop() == 0)
    #expect(ContinuousClock.now - signalled < .seconds(20))
  }

  @Test("is degraded while the signer has no key, as all replicas are, and recovers")
  func readiness() throws {
    let ground = try SignerGround()
    let server = try ground.serve(ground.configure(ground.signer))
    try ground.agent.removeAll()
    try eventually("the server knows") { try server.check("token").status == "degraded" }
    let check = try server.check("token")
    #expect(check.detail?.contains("`ssh-add -L` lists its keys") == true)
    #expect(try server.request("/readyz").status == 200)
    #expect(try server.request("/healthz").status == 200)
    // A reload with other claims keeps what is known of the signer.
    _ = try ground.configure(ground.signer, "token: { ttl: '11h' },")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Configuration reloaded")
    try ground.agent.add(ground.ground.key.pem)
    try eventually("the server knows that the signer is back") { try server.check("token").status == "ok" }
    try server.process.waitForErrors("The agent at “\(ground.agent.socket)” (musickit.signer.agent) signs again.")
    #expect(server.stop() == 0)
    #expect(server.log.ranges(of: "signs again.").count == 1)
  }

  @Test("ends with 75 if the signer is only down, and with 78 if the settings are wrong")
  func starts() throws {
    let ground = try SignerGround()
    func expect(
      _ settings: [String: String], _ more: [String: String], serve: Int32, doctor: Int32, check: Int32,
      _ sentence: String,
      sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
      let served = try ground.run("serve", settings, more)
      #expect(served.status == serve && served.stderr.contains(sentence), "\(served)", sourceLocation: sourceLocation)
      let checked = try ground.run("check-config", settings, more)
      #expect(checked.status == check, "\(checked.stderr)", sourceLocation: sourceLocation)
      let found = try ground.run("doctor", settings, more.merging(["CATALOG_ENABLED": "false"]) { $1 })
      #expect(found.status == doctor && found.stdout.contains(sentence), "\(found)", sourceLocation: sourceLocation)
      // A key is of use only with its signer.
      let key = found.stdout.split(separator: "\n").first { $0.contains(" key  ") }
      #expect(key?.contains(sentence) == true, "\(found)", sourceLocation: sourceLocation)
      #expect(key?.contains(doctor == 1 ? ". But its signer fails. " : "✗") == true, sourceLocation: sourceLocation)
    }
    let agent = ground.agentSettings
    try expect(
      agent, ["MUSICKIT_SIGNER_AGENT": "/none"], serve: 75, doctor: 1, check: 0,
      "The agent at “/none” (musickit.signer.agent) cannot be reached: No such file or directory; start ssh-agent -a ")
    ground.agent.process.signal(SIGSTOP)
    try expect(
      agent, ["MUSICKIT_SIGNER_TIMEOUT": "100ms"], serve: 75, doctor: 1, check: 0,
      "has not signed within 100 ms; find out what it waits for, or raise musickit.signer.timeout.")
    ground.agent.process.signal(SIGCONT)
    let other = try ground.ground.directory.write(try KeyPair().publicPEM, to: "other.pem")
    try expect(
      agent, ["MUSICKIT_SIGNER_PUBLIC_KEY_FILE": other], serve: 75, doctor: 1, check: 0,
      "has no key that matches musickit.signer.publicKeyFile")
    try expect(
      ground.commandSettings(), ["MUSICKIT_SIGNER_PUBLIC_KEY_FILE": other], serve: 78, doctor: 78, check: 0,
      "gives a signature that does not verify with musickit.signer.publicKeyFile: it is by another key, or not over SHA-256."
    )
    try expect(
      agent, ["MUSICKIT_SIGNER_PUBLIC_KEY_FILE": ground.ground.keyFile], serve: 78, doctor: 78, check: 78,
      "has a private key, and only the signer may have that one")
    try expect(
      ground.commandSettings("echo down >&2; exit 1"), [:], serve: 75, doctor: 1, check: 0,
      "/sign” (musickit.signer.command) has ended with status 1: “down”. Run it as the server's user, ")
    try expect(
      ground.commandSettings(), ["MUSICKIT_SIGNER_COMMAND": "['/none/sign']"], serve: 78, doctor: 78, check: 78,
      "the program \"/none/sign\" cannot be found: No such file or directory")
    let found = try ground.run("doctor", agent, ["CATALOG_ENABLED": "false"])
    #expect(found.status == 0 && found.stdout.contains("A new token passes every check of inspect"), "\(found)")
    #expect(found.stdout.contains("Key \(Ground.keyID) is usable"), "\(found)")
    let command = try ground.run("check-config", ground.commandSettings("touch '\(ground.ground.directory.path)/mark'"))
    #expect(command.status == 0, "\(command.stderr)")
    #expect(command.stdout.hasSuffix("\nThe signer has not been asked: doctor lets it sign.\n"), "\(command)")
    #expect(throws: TestFailure.self) { try TextFile.read("\(ground.ground.directory.path)/mark") }
  }

  @Test(
    "takes another key, another signer and a key file by a reload, and keeps the old one if the new one does not sign")
  func reload() throws {
    let ground = try SignerGround()
    let settings = try ground.configure("keyFile: '\(ground.ground.keyFile)'")
    let server = try ground.serve(settings)
    let first = try #require(try server.request("/token").token)
    // The same key in the agent.
    _ = try ground.configure(ground.signer)
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Configuration reloaded")
    let second = try #require(try server.request("/token").token)
    #expect(try ground.inspect(second) == 0 && first != second, "The cache is empty.")
    // Another key, which the agent lacks.
    let next = try KeyPair()
    let nextPublic = try ground.ground.directory.write(next.publicPEM, to: "next.pem")
    let signer = ground.signer.replacing(ground.publicKeyFile, with: nextPublic)
      .replacing(Ground.keyID, with: "DEF1234567")
    _ = try ground.configure(signer)
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("has no key that matches musickit.signer.publicKeyFile")
    #expect(try server.request("/token").token == second)
    #expect(try server.check("settings").status == "degraded")
    // Now the agent has it.
    try ground.agent.add(next.pem)
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Signing key replaced")
    let third = try #require(try server.request("/token").token)
    #expect(try CompactToken(third).header["kid"]?.string == "DEF1234567")
    #expect(try Program.run(["inspect", "--key-file", nextPublic], input: third).status == 0)
    // An unchanged signer may be down when something else changes.
    ground.agent.process.kill()
    _ = try ground.configure("\(signer) }, token: { ttl: '1h' ")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Configuration reloaded", count: 3)
    // Back to the file.
    _ = try ground.configure("keyFile: '\(ground.ground.keyFile)'")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Configuration reloaded", count: 4)
    #expect(try ground.inspect(server.request("/token").token) == 0)
    #expect(server.stop() == 0)
  }

  @Test("in confinement needs a restart for a command")
  func confinement() throws {
    let ground = try SignerGround()
    let server = try ground.serve(try ground.configure(ground.signer))
    let command =
      "keyID: '\(Ground.keyID)', signer: { command: ['\(try ground.script())'], publicKeyFile: '\(ground.publicKeyFile)' }"
    _ = try ground.configure(command)
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("File access ")
    if server.log.contains("File access restricted") {
      try server.process.waitForErrors("since its start the server may run no program (server.landlock)")
    } else {
      try server.process.waitForErrors("Configuration reloaded")
    }
    #expect(try server.request("/token").status == 200)
    #expect(server.stop() == 0)
  }
}
