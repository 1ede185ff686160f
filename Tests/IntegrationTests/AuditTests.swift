import Bytes
import Glibc
import JSON
import TestSupport
import Testing

@Suite("The audit log")
struct AuditTests {
  @Test("describes each grant and identifies the token without its text")
  func grant() throws {
    let ground = try AccessGround()
    let response = try ground.request("/token", key: nil, "-H", "Origin: https://app.example.com")
    let token = try #require(response.token)
    let digest = try AccessGround.sha256(token)
    ground.server.stop()
    let lines = ground.server.logLines.compactMap { $0 }.filter { $0["message"]?.string == "audit" }
    #expect(lines.count == 1)
    let line = try #require(lines.first)
    #expect(line["request.id"]?.string == response["X-Request-ID"])
    #expect(line["client.id"]?.string == "web")
    #expect(line["client.address"]?.string == "127.0.0.1")
    #expect(line["http.route"]?.string == "/token")
    #expect(line["audit.outcome"]?.string == "granted")
    #expect(line["token.key_id"]?.string == Ground.keyID)
    #expect(line["token.origins"] == .array([.string("https://app.example.com")]))
    #expect(line["token.expiry"]?.integer == response.json?["expiresAt"]?.integer)
    #expect(line["token.sha256"]?.string == digest)
    #expect(line["time"]?.string?.isEmpty == false)
    #expect(!ground.server.log.contains("eyJ"))
  }

  @Test("has one line per GET, POST and HEAD, and none for OPTIONS")
  func methods() throws {
    let ground = try AccessGround()
    for method in ["GET", "POST", "HEAD"] {
      let options = (method == "HEAD" ? ["-I"] : ["-X", method]) + ["-H", "Accept: text/plain"]
      let response = try ParsedResponse(
        curl: options + ["-H", "X-API-Key: \(AccessGround.android)", "\(ground.server.url)/token"])
      #expect(response.status == 200)
      #expect(response["Content-Type"] == "text/plain")
      if method == "HEAD" { #expect(response.body.isEmpty) } else { _ = try CompactToken(response.text) }
      // A refusal is always JSON.
      let refused = try ParsedResponse(curl: options + ["-H", "X-API-Key: wrong", "\(ground.server.url)/token"])
      #expect(refused.status == 401)
      #expect(refused["Content-Type"] == "application/json")
    }
    let origin = ["-H", "Origin: https://app.example.com", "-H", "Access-Control-Request-Method: GET"]
    for target in ["/token", AccessGround.album, "/v1/me/library/songs"] {
      let preflight = try ParsedResponse(curl: ["-X", "OPTIONS"] + origin + ["\(ground.server.url)\(target)"])
      #expect(preflight.status == 204)
      #expect(preflight["Access-Control-Allow-Origin"] == "https://app.example.com")
      #expect(preflight["Access-Control-Allow-Headers"]?.contains("Authorization, X-API-Key") == true)
      let plain = try ParsedResponse(curl: ["-X", "OPTIONS", "-H", "X-API-Key: wrong", "\(ground.server.url)\(target)"])
      #expect(plain.status == 204 && plain["Allow"] != nil)
    }
    ground.server.stop()
    #expect(ground.auditLines.map(\.outcome) == (0..<3).flatMap { _ in ["granted", "refused"] })
    #expect(ground.auditLines.allSatisfy { ($0.client == "android") == ($0.outcome == "granted") })
  }

  @Test("names a refused origin, also for a preflight, but no malformed origin")
  func origins() throws {
    let ground = try AccessGround()
    let preflight = ["-X", "OPTIONS", "-H", "Access-Control-Request-Method: GET"]
    let long = "https://\(String(repeating: "a", count: 300)).example"
    let cases: [(target: String, options: [String], origin: String?)] = [
      ("/token", ["-H", "Origin: https://evil.example"], "https://evil.example"),
      ("/token", ["-H", "Origin: null"], "null"),
      ("/token", ["-H", "Origin: \(long)"], nil),
      ("/token", ["-H", "Origin: https://Evil.example/\\[31m"], nil),
      ("/token", preflight + ["-H", "Origin: https://evil.example:8443"], "https://evil.example:8443"),
      (AccessGround.album, preflight + ["-H", "Origin: null"], "null"),
    ]
    for (target, options, _) in cases { _ = try ParsedResponse(curl: options + ["\(ground.server.url)\(target)"]) }
    // None of these is a preflight of a refused origin.
    let others = [
      ["-X", "OPTIONS", "-H", "Origin: https://evil.example"], preflight, preflight + ["-H", "Origin: \(long)"],
    ]
    for options in others {
      _ = try ParsedResponse(curl: options + ["\(ground.server.url)/token"])
    }
    ground.server.stop()
    let lines = ground.server.logLines.compactMap { $0 }.filter { $0["message"]?.string == "audit" }
    #expect(lines.map { $0["request.origin"]?.string } == cases.map(\.origin))
    #expect(lines.allSatisfy { $0["audit.reason"]?.string == "origin_not_allowed" })
  }

  @Test("loses no line when its file is moved away")
  func rotation() throws {
    let directory = try TemporaryDirectory()
    let file = directory.path(of: "audit.log")
    let ground = try AccessGround("", ["AUDIT_FILE": file])
    #expect(try ground.request("/token").status == 200)
    try eventually("the first line is there") { try Self.lines(file).count == 1 }
    #expect(unsafe rename(file, "\(file).1") == 0)
    #expect(try ground.request("/token", key: "wrong").status == 401)
    try eventually("the second line is there") { try Self.lines(file).count == 1 }
    ground.server.stop()
    let all = try Self.lines("\(file).1") + Self.lines(file)
    #expect(all.map { $0["audit.outcome"]?.string } == ["granted", "refused"])
    #expect(all.allSatisfy { $0["message"]?.string == "audit" })
    #expect(ground.auditLines.isEmpty, "they are not in the log as well")
  }

  @Test("has a new file at once after SIGUSR1, and no signal of another server's snippets ends the server")
  func signals() throws {
    let directory = try TemporaryDirectory()
    let file = directory.path(of: "audit.log")
    let ground = try AccessGround("", ["AUDIT_FILE": file])
    #expect(try ground.request("/token").status == 200)
    try eventually("the first line is there") { try Self.lines(file).count == 1 }
    #expect(unsafe rename(file, "\(file).1") == 0)
    ground.server.process.signal(SIGUSR1)
    try eventually("there is a new file") { unsafe access(file, F_OK) == 0 }
    try ground.server.process.waitForErrors("Log files reopened")
    ground.server.process.signal(SIGUSR2)
    try ground.server.process.waitForErrors("The server ignores SIGUSR2.")
    #expect(try ground.request("/token").status == 200)
    ground.server.stop()
    #expect(try Self.lines("\(file).1").count == 1 && Self.lines(file).count == 1)
  }

  @Test("does not stop the server while its file is unwritable, and resumes afterwards")
  func lostDisk() throws {
    let directory = try TemporaryDirectory()
    let folder = directory.path(of: "audit")
    #expect(unsafe mkdir(folder, 0o755) == 0)
    let file = "\(folder)/audit.log"
    let ground = try AccessGround("", ["AUDIT_FILE": file])
    #expect(try ground.request("/token").status == 200)
    try eventually("the first line is there") { try Self.lines(file).count == 1 }
    // The disk is gone: a link to a full disk is in place of the file.
    #expect(unsafe unlink(file) == 0)
    #expect(unsafe symlink("/dev/full", file) == 0)
    for _ in 0..<5 { #expect(try ground.request("/token").status == 200) }
    #expect(unsafe unlink(file) == 0)
    try eventually("a line is there again") {
      _ = try ground.request("/token")
      return try Self.lines(file).contains { $0["audit.outcome"]?.string == "granted" }
    }
    #expect(ground.server.stop() == 0)
  }

  @Test("goes on with a line where a full disk has cut it")
  func fullFile() throws {
    let directory = try TemporaryDirectory()
    let file = directory.path(of: "audit.log")
    let ground = try AccessGround("", ["AUDIT_FILE": file])
    func size() throws -> Int { try TextFile.read(file).utf8.count }
    /// Lets the server write no byte beyond this size of a file, as a full disk does.
    func limit(_ size: String) throws {
      #expect(try run("prlimit", ["--pid", "\(ground.server.process.id)", "--fsize=\(size):"]).status == 0)
    }
    #expect(try ground.request("/token").status == 200)
    try eventually("the first line is there") { try Self.lines(file).count == 1 }
    let first = try size()
    // A line and a third.
    try limit("\(first * 7 / 3)")
    for _ in 0..<3 { #expect(try ground.request("/token").status == 200) }
    try eventually("one line more is there, and a part of another") { try size() == first * 7 / 3 }
    try limit("unlimited")
    try eventually("all lines are there") { try Self.lines(file).count == 4 }
    #expect(try TextFile.read(file).split(separator: "\n").count == 4)
    // A file that was moved meanwhile has a successor with whole lines.
    try limit("\(first * 13 / 3)")
    #expect(try ground.request("/token").status == 200)
    try eventually("a part of a line is there") { try size() == first * 13 / 3 }
    #expect(unsafe rename(file, file + ".1") == 0)
    try limit("unlimited")
    try eventually("its line is in the new file") { try Self.lines(file).count == 1 }
    #expect(try size() == first)
  }

  @Test("that cannot be written at the end of the server is an error, with the number of lost records")
  func lostAtEnd() throws {
    let directory = try TemporaryDirectory()
    #expect(unsafe symlink("/dev/full", directory.path(of: "audit.log")) == 0)
    let ground = try AccessGround("", ["AUDIT_FILE": directory.path(of: "audit.log")])
    for _ in 0..<2 { #expect(try ground.request("/token").status == 200) }
    #expect(ground.server.stop() == 1)
    #expect(ground.server.log.contains("so it loses up to 2 of its last records"))
  }

  @Test("in an unwritable file is an error at the start")
  func unwritable() throws {
    let result = try Ground().run(["serve"], ["AUDIT_FILE": "/nonexistent/audit.log"])
    #expect(result.status == 78)
    #expect(result.stderr.contains("/nonexistent/audit.log"))
    let check = try Ground().run(["check-config"], ["AUDIT_FILE": "/nonexistent/audit.log"])
    #expect(check.status == 78)
    #expect(check.stderr.contains("audit.file"))
  }

  @Test("has counters per client in the metrics")
  func metrics() throws {
    let ground = try AccessGround()
    for _ in 0..<3 { #expect(try ground.request("/token").status == 200) }
    #expect(try ground.request("/token?ttl=90000").status == 400)
    #expect(try ground.request("/token", key: "wrong").status == 401)
    #expect(try ground.request("/token", key: nil).status == 401)
    let page = try MetricsPage(of: ground.server)
    func count(_ client: String, _ outcome: String, _ reason: String) -> Double? {
      page["musickit_access_decisions_total", ["client": client, "outcome": outcome, "reason": reason]]
    }
    #expect(count("android", "granted", "-") == 3)
    #expect(count("android", "refused", "ttl_too_long") == 1)
    #expect(count("-", "refused", "unknown_api_key") == 1)
    #expect(count("-", "refused", "no_credential") == 1)
  }

  private static func lines(_ file: String) throws -> [JSONValue] {
    // The file may be missing: the server creates it at the start, and again after a move.
    guard unsafe access(file, F_OK) == 0 else { return [] }
    return try TextFile.read(file).split(separator: "\n").compactMap { JSONReader.read(Array($0.utf8)) }
  }
}
