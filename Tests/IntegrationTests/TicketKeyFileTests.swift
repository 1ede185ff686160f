import Glibc
import JSON
import TestSupport
import Testing

@Suite("Servers with files of ticket keys")
struct TicketKeyFileTests {
  private static let versions = ["-tls1_2", "-tls1_3"]
  private static let done = "Configuration reloaded"
  private static let refused = "The new settings are invalid, so the old ones stay in use."

  /// The certificate of a name that several servers serve, and their ticket keys.
  private struct Name {
    let ground: Ground
    let certificate: (file: String, keyFile: String)

    init() throws {
      ground = try Ground()
      certificate = try ground.certificate()
    }

    /// Makes a key with the command of the documents.
    func makeKey(_ file: String, bytes: Int = 80) throws {
      let path = ground.directory.path(of: file)
      try #require(try run("openssl", ["rand", "-out", path, "\(bytes)"]).status == 0)
    }

    /// Writes the settings file of a server; no setting for an empty list.
    func settings(_ keys: [String], to file: String = "config.json5") throws -> String {
      let list = keys.map { "'\(ground.directory.path(of: $0))'" }.joined(separator: ", ")
      let setting = keys.isEmpty ? "" : ", ticketKeyFiles: [\(list)]"
      return try ground.directory.write(
        "{ server: { tls: { certificateFile: '\(certificate.file)', keyFile: '\(certificate.keyFile)'\(setting) } } }",
        to: file)
    }

    func serve(_ keys: [String], settings file: String = "config.json5") throws -> RunningServer {
      try ground.serve(["MUSICKIT_CONFIG": try settings(keys, to: file)])
    }

    /// Connects with OpenSSL's client, and returns its report.
    private func connect(_ server: RunningServer, _ options: [String]) throws -> String {
      // With -ign_eof, openssl waits for the end of the server, not for the end of standard input.
      let fixed = ["s_client", "-connect", "127.0.0.1:\(server.port)", "-CAfile", ground.certificateFile, "-ign_eof"]
      let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
      let report = try run("openssl", fixed + options, input: Array(request.utf8)).stdout
      try #require(report.contains("HTTP/1.1 200 OK"), "\(report)")
      return report
    }

    /// Gets a new session.
    func session(from server: RunningServer, _ version: String, _ file: String = "session") throws {
      #expect(try connect(server, [version, "-sess_out", ground.directory.path(of: file)]).contains("New, "))
    }

    func resumes(on server: RunningServer, _ version: String, _ file: String = "session") throws -> Bool {
      let report = try connect(server, [version, "-sess_in", ground.directory.path(of: file)])
      try #require(report.contains("Reused, ") != report.contains("New, "))
      return report.contains("Reused, ")
    }
  }

  @Test("resume each other's sessions, and those of no server with another file", arguments: versions)
  func replicas(_ version: String) throws {
    let name = try Name()
    for key in ["ticket.key", "other.key"] { try name.makeKey(key) }
    let first = try name.serve(["ticket.key"])
    let second = try name.serve(["ticket.key"], settings: "second.json5")
    let other = try name.serve(["other.key"], settings: "other.json5")
    try name.session(from: first, version)
    #expect(try name.resumes(on: second, version))
    #expect(try name.resumes(on: first, version))
    #expect(try !name.resumes(on: other, version))
    for server in [first, second, other] { #expect(server.stop() == 0) }
  }

  @Test("rotate without a lost session: the new file last, then first, then alone", arguments: versions)
  func rotation(_ version: String) throws {
    let name = try Name()
    for key in ["old.key", "new.key"] { try name.makeKey(key) }
    let servers = try ["a.json5", "b.json5"].map { try name.serve(["old.key"], settings: $0) }
    var reloads = 0
    func reload(_ keys: [String]) throws {
      reloads += 1
      for (server, file) in zip(servers, ["a.json5", "b.json5"]) {
        _ = try name.settings(keys, to: file)
        server.process.signal(SIGHUP)
        try server.process.waitForErrors(Self.done, count: reloads)
      }
    }
    try name.session(from: servers[0], version, "old")
    try reload(["old.key", "new.key"])
    #expect(try name.resumes(on: servers[1], version, "old"))
    try name.session(from: servers[0], version, "late")
    try reload(["new.key", "old.key"])
    #expect(try name.resumes(on: servers[1], version, "old"))
    try name.session(from: servers[0], version, "new")
    try reload(["new.key"])
    #expect(try !name.resumes(on: servers[1], version, "old"))
    #expect(try !name.resumes(on: servers[1], version, "late"), "the first file encrypts, not the last")
    #expect(try name.resumes(on: servers[1], version, "new"))
    for server in servers { #expect(server.stop() == 0) }
  }

  @Test("keep tickets valid at a reload with unchanged files, and take a changed file without a signal")
  func change() throws {
    let name = try Name()
    // A folder of its own, which the server may read after its start only because the setting names a file there.
    let other = try TemporaryDirectory()
    let keys = other.path(of: "keys")
    try #require(unsafe mkdir(keys, 0o700) == 0 && symlink(keys, name.ground.directory.path(of: "keys")) == 0)
    try name.makeKey("keys/ticket.key")
    let server = try name.serve(["keys/ticket.key"])
    try name.session(from: server, "-tls1_3")
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.done)
    #expect(try name.resumes(on: server, "-tls1_3"))
    // A rename, so that the server never reads a half of the file.
    try name.makeKey("keys/ticket.key.new")
    let path = name.ground.directory.path(of: "keys/ticket.key")
    try #require(unsafe rename("\(path).new", path) == 0)
    try server.process.waitForErrors(Self.done, count: 2)
    #expect(try !name.resumes(on: server, "-tls1_3"))
    #expect(server.stop() == 0)
    #expect(server.log.contains("\"cause\":\"a file changed\""))
  }

  @Test("change to the process's own keys and back at a reload", arguments: versions)
  func ownKeys(_ version: String) throws {
    let name = try Name()
    try name.makeKey("ticket.key")
    // The first start names a file of the folder, so the server may read the key later.
    let server = try name.serve([])
    try name.session(from: server, version, "own")
    for (count, keys) in [(1, ["ticket.key"]), (2, []), (3, ["ticket.key"])] {
      _ = try name.settings(keys)
      server.process.signal(SIGHUP)
      try server.process.waitForErrors(Self.done, count: count)
      #expect(try !name.resumes(on: server, version, "own"))
      if count == 1 { try name.session(from: server, version, "shared") }
      #expect(try name.resumes(on: server, version, "shared") == !keys.isEmpty)
    }
    #expect(server.stop() == 0)
  }

  @Test("keep the old keys if a new file is bad, and say why", arguments: versions)
  func badFile(_ version: String) throws {
    let name = try Name()
    try name.makeKey("ticket.key")
    let server = try name.serve(["ticket.key"])
    try name.session(from: server, version)
    try name.makeKey("older.key", bytes: 48)
    _ = try name.settings(["older.key", "ticket.key"])
    server.process.signal(SIGHUP)
    try server.process.waitForErrors(Self.refused)
    #expect(try name.resumes(on: server, version))
    _ = try name.settings(["ticket.key", "ticket.key"])
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("have the same name")
    #expect(try name.resumes(on: server, version))
    #expect(server.stop() == 0)
    let reasons = server.logLines.compactMap { $0?["reason"]?.string }.filter { $0.contains("ticketKeyFiles") }
    let older = name.ground.directory.path(of: "older.key")
    #expect(
      reasons.contains(
        "server.tls.ticketKeyFiles[0]: '\(older)' has 48 bytes, as older versions of nginx use them with AES-128, and a "
          + "ticket key has 80; make one with 'openssl rand -out ticket.key 80'."), "\(reasons)")
    #expect(reasons.contains { $0.hasPrefix("server.tls.ticketKeyFiles: The keys in '") }, "\(reasons)")
  }

  @Test("stop at the start for a bad file, and check-config names each one without a byte of it")
  func check() throws {
    let name = try Name()
    let text = "a-secret-of-the-wrong-length"
    _ = try name.ground.directory.write(text, to: "short.key")
    try name.makeKey("ticket.key")
    let file = try name.settings(["short.key", "ticket.key", "missing.key"])
    for command in ["check-config", "serve"] {
      let result = try name.ground.run([command], ["MUSICKIT_CONFIG": file])
      #expect(result.status == 78)
      #expect(result.stderr.contains("server.tls.ticketKeyFiles[0]: '"), "\(result.stderr)")
      #expect(result.stderr.contains("has 28 bytes, and a ticket key has 80;"))
      #expect(result.stderr.contains("server.tls.ticketKeyFiles[2]: '"))
      #expect(!result.stderr.contains("ticketKeyFiles[1]") && !(result.stdout + result.stderr).contains(text))
    }
    let good = try name.settings(["ticket.key"])
    #expect(unsafe chmod(name.ground.directory.path(of: "ticket.key"), 0o644) == 0)
    let result = try name.ground.run(["check-config"], ["MUSICKIT_CONFIG": good])
    #expect(result.status == 0)
    #expect((result.stdout + result.stderr).contains("can read the ticket key file '"), "\(result.stderr)")
  }
}
