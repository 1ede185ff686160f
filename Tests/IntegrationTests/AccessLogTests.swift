import Glibc
import JSON
import TestSupport
import Testing

@Suite("The access log")
struct AccessLogTests {
  private static let fields = [
    "client.address", "duration.ms", "http.method", "http.route", "http.status", "level", "message", "request.id",
    "response.bytes", "span_id", "time", "trace_id",
  ]

  @Test("has one line per request, with exactly twelve fields")
  func fields() throws {
    let server = try Ground().serve()
    let responses = [
      try server.request("/token?ttl=3600"), try server.request("/nothing?q=1"), try server.request("/token", "-I"),
      try server.request("/token?ttl=1"), try server.admin("/healthz"), try server.request("/token", "-X", "DELETE"),
    ]
    #expect(server.stop() == 0)
    #expect(server.logLines.allSatisfy { $0 != nil }, "every line is a JSON object: \(server.log)")
    let lines = server.accessLines
    #expect(lines.map { $0["request.id"]?.string } == responses.map { $0["X-Request-ID"] })
    for (line, response) in zip(lines, responses) {
      #expect(line.names == Self.fields)
      #expect(line["http.status"]?.integer == response.status)
      #expect(line["response.bytes"]?.integer == response.body.count)
      #expect(line["client.address"]?.string == "127.0.0.1")
    }
    #expect(lines.map { $0["http.method"]?.string } == ["GET", "GET", "HEAD", "GET", "GET", "DELETE"])
    #expect(lines.map { $0["http.route"]?.string } == ["/token", "-", "/token", "/token", "/healthz", "/token"])
  }

  @Test("has a line without client data for a request that is refused before routing")
  func refused() throws {
    let server = try Ground().serve()
    let connection = try server.connect()
    connection.send("SECRET-METHOD /secret-path\u{01} HTTP/1.1\r\nSecret-Field: secret-value\r\n\r\n")
    connection.finishSending()
    #expect(try connection.receiveAll().hasPrefix("HTTP/1.1 400 "))
    server.stop()
    #expect(server.accessLines.map { $0["http.status"]?.integer } == [400])
    #expect(!server.log.lowercased().contains("secret"))
  }

  @Test("is in text form if the settings say so")
  func text() throws {
    let server = try Ground().serve(["LOG_FORMAT": "text"])
    let response = try server.request("/token?ttl=60")
    server.stop()
    let line = server.log.split(separator: "\n").first { $0.contains("info access ") } ?? ""
    #expect(line.contains("request.id=\(response["X-Request-ID"] ?? "?")"))
    #expect(line.contains("http.status=200"))
    #expect(!line.contains("ttl"))
  }

  @Test("on a terminal has a coloured line per request with its path, but without its query")
  func terminal() throws {
    let ground = try Ground()
    let server = try withExtendedLifetime(ground.directory) {
      try RunningServer(
        Repository.python, [Repository.script("with_terminal.py"), Program.path], environment: ground.settings)
    }
    let path = "/v1/catalog/us/songs/\(String(repeating: "1", count: 200))"
    for target in ["/token?ttl=60", "/nothing%1B?q=secret", path] { _ = try server.request(target) }
    server.stop()
    let lines = server.log.split(whereSeparator: \.isNewline).map(String.init)
    let requests = lines.filter { $0.contains("GET") }
    #expect(requests.count == 3, "\(server.log)")
    #expect(requests.first?.contains("\u{1B}[32m200\u{1B}[0m  GET /token  ") == true)
    #expect(requests.contains { $0.contains("\u{1B}[33m404\u{1B}[0m  GET /nothing%1B  ") })
    #expect(requests.allSatisfy { $0.replacing(/\e\[[0-9]+m/, with: "").count <= 120 })
    #expect(!server.log.contains("secret") && !server.log.contains("ttl"))
  }

  @Test("begins and ends with a reload of log.level, and of log.access except for errors")
  func reload() throws {
    let ground = try Ground()
    func write(_ log: String) throws -> String {
      try ground.directory.write("{ log: { \(log) } }", to: "config.json5")
    }
    let file = try write("level: 'warning'")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    func reload(_ log: String, _ count: Int) throws {
      _ = try write(log)
      server.process.signal(SIGHUP)
      try server.process.waitForErrors("Configuration reloaded", count: count)
    }
    #expect(try server.request("/token").status == 200)
    try reload("level: 'info', access: 0", 1)
    #expect(try server.request("/token").status == 200)
    #expect(try server.request("/nothing").status == 404)
    #expect(try server.admin("/readyz").json?["checks"]?["auditLog"]?["detail"]?.string == "every grant has a record")
    try reload("level: 'info'", 2)
    #expect(try server.request("/token").status == 200)
    server.stop()
    // The admin listener's own requests have a line as well.
    let lines = server.accessLines.filter { $0["http.route"]?.string != "/readyz" }
    #expect(lines.map { $0["http.status"]?.integer } == [404, 200])
    #expect(server.logLines.count { $0?["message"]?.string == "audit" } == 2)
    #expect(!server.log.contains("only after a restart"))
  }

  @Test("is empty at level warning if the audit log has a file")
  func level() throws {
    let ground = try Ground()
    let server = try ground.serve(["LOG_LEVEL": "warning", "AUDIT_FILE": ground.directory.path(of: "audit.log")])
    _ = try server.request("/token")
    server.stop()
    #expect(server.log.isEmpty)
  }
}
