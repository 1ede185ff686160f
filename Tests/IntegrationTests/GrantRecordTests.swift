import Glibc
import JSON
import TestSupport
import Testing

/// Whether a server grants anything without a record in its audit log.
@Suite("The record of a grant")
struct GrantRecordTests {
  private static func digests(_ log: String) -> Int { log.matches(of: /"token\.sha256":"[0-9a-f]{64}"/).count }

  @Test("is there although a stranger sends refusals, which have a hundred lines in a second and then a sum")
  func flood() throws {
    let directory = try TemporaryDirectory()
    let file = directory.path(of: "audit.log")
    let ground = try AccessGround("", ["AUDIT_FILE": file])
    let request = String(repeating: "GET /token HTTP/1.1\r\nHost: x\r\n\r\n", count: 100)
    // Few enough on each connection that the responses fit into the buffers of a client that does not read.
    let strangers = try (0..<20).map { _ in try ground.server.connect() }
    for stranger in strangers { stranger.send(request) }
    for number in 0..<5 { #expect(try ground.request("/token?ttl=\(3600 + number)").status == 200) }
    try eventually("every refusal has an access line") {
      try MetricsPage(of: ground.server)[
        "musickit_access_decisions_total", ["client": "-", "outcome": "refused", "reason": "no_credential"]] == 2000
    }
    #expect(ground.server.stop() == 0)
    let lines = try TextFile.read(file).split(separator: "\n").compactMap { JSONReader.read(Array($0.utf8)) }
    #expect(lines.count { $0["token.sha256"] != nil } == 5)
    let refusals = lines.count { $0["audit.outcome"]?.string == "refused" }
    let sums = lines.filter { $0["audit.event"]?.string == "refusals_summed_up" }
    #expect(refusals + sums.reduce(0) { $0 + ($1["audit.refused"]?.integer ?? 0) } == 2000)
    #expect(!sums.isEmpty && sums.allSatisfy { $0["client.address"]?.string == "127.0.0.1" })
  }

  @Test("keeps no request waiting while the reader of the log stands still, and arrives when it reads again")
  func reader() throws {
    let directory = try TemporaryDirectory()
    let file = directory.path(of: "audit.fifo")
    try #require(unsafe mkfifo(file, 0o600) == 0)
    let reader = unsafe open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    defer { close(reader) }
    let ground = try AccessGround("", ["AUDIT_FILE": file])
    // A pipe holds 64 KiB; each of these records has more than 200 bytes.
    let request = "GET /token HTTP/1.1\r\nHost: x\r\nX-API-Key: \(AccessGround.android)\r\n\r\n"
    for _ in 0..<5 {
      let connection = try ground.server.connect()
      connection.send(String(repeating: request, count: 100))
      connection.finishSending()
      #expect(try connection.receiveAll().split(separator: "HTTP/1.1 200 ").count == 100)
    }
    #expect(try ground.request("/token").status == 200)
    var text: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    try eventually("all records have arrived") {
      while true {
        let count = unsafe read(reader, &chunk, chunk.count)
        guard count > 0 else { break }
        text += chunk[..<count]
      }
      return Self.digests(String(decoding: text, as: UTF8.self)) == 501
    }
    #expect(ground.server.stop() == 0)
  }

  @Test(
    "is a condition of the grant with audit.required: 503 while the file cannot be written, and the server recovers")
  func required() throws {
    let directory = try TemporaryDirectory()
    let file = directory.path(of: "audit.log")
    try #require(unsafe symlink("/dev/full", file) == 0)
    let ground = try AccessGround("", ["AUDIT_FILE": file, "AUDIT_REQUIRED": "true"])
    // The first grant finds out that the disk is full. Its record waits.
    #expect(try ground.request("/token").status == 200)
    try ground.server.process.waitForErrors("The server cannot write the audit file")
    for path in ["/token", AccessGround.album] {
      let refused = try ground.request(path)
      #expect(refused.status == 503 && refused.errorCode == "audit_unavailable", "\(path)")
      #expect(refused["Retry-After"] == "5")
    }
    let readiness = try ground.server.admin("/readyz")
    #expect(readiness.status == 503)
    #expect(readiness.json?["checks"]?["auditLog"]?["status"]?.string == "failed")
    try #require(unsafe unlink(file) == 0)
    try eventually("the server grants again") { try ground.request("/token").status == 200 }
    #expect(try ground.server.admin("/readyz").status == 200)
    #expect(ground.server.stop() == 0)
    #expect(Self.digests(try TextFile.read(file)) == 2, "the one that waited, and the last one")
  }

  @Test("that cannot be written waits by default, and /readyz says so")
  func optional() throws {
    let directory = try TemporaryDirectory()
    let file = directory.path(of: "audit.log")
    try #require(unsafe symlink("/dev/full", file) == 0)
    let ground = try AccessGround("", ["AUDIT_FILE": file])
    #expect(try ground.server.admin("/readyz").json?["checks"]?["auditLog"]?["status"]?.string == "ok")
    #expect(try ground.request("/token").status == 200)
    try ground.server.process.waitForErrors("The server cannot write the audit file")
    #expect(try ground.request("/token").status == 200)
    let readiness = try ground.server.admin("/readyz")
    #expect(readiness.status == 200)
    #expect(readiness.json?["checks"]?["auditLog"]?["status"]?.string == "degraded")
    #expect(try MetricsPage(of: ground.server)["musickit_audit_grants_unrecorded_total"] == 0)
    try #require(unsafe unlink(file) == 0)
    try eventually("both records are there") {
      let isThere = unsafe access(file, F_OK) == 0
      return try isThere && Self.digests(TextFile.read(file)) == 2
    }
    #expect(ground.server.stop() == 0)
  }

  @Test("is missing in a log without audit lines, and the start says so at any level", arguments: ["warning", "error"])
  func level(_ level: String) throws {
    let server = try Ground().serve(["LOG_LEVEL": level])
    try server.process.waitForErrors("The server keeps no audit log")
    #expect(server.stop() == 0)
    let result = try Ground().run(["check-config"], ["LOG_LEVEL": level, "AUDIT_REQUIRED": "true"])
    #expect(result.status == 78)
    #expect(result.stderr.contains("audit.required (AUDIT_REQUIRED): is true, and there is no audit log"))
  }
}
