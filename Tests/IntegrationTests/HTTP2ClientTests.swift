import JSON
import TestSupport
import Testing

/// Clients of HTTP/2 that are not ours, against the built program over TLS.
@Suite("HTTP/2 of other programs")
struct HTTP2ClientTests {
  private static func server(_ ground: Ground, _ more: [String: String] = [:]) throws -> RunningServer {
    try ground.serve(try ground.tlsSettings().merging(more) { $1 })
  }

  @Test("Go's client sends 400 requests at once, all methods, contents and cancellations over few connections")
  func go() throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    let program = ground.directory.path(of: "http2_client")
    let source = "\(Repository.path)/Tests/Go/http2_client.go"
    let settings = ["GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOPROXY=off"]
    let build = try run("env", settings + ["go", "build", "-o", program, source])
    #expect(build.status == 0, "\(build.stderr)")
    let client = try run(program, [server.url, ground.certificateFile])
    #expect(client.stdout == "ok\n", "\(client.stderr)")
    let page = try MetricsPage(of: server)
    #expect(page["musickit_http2_misconduct_total", ["reason": "protocol_error"]] == 0)
    #expect(server.stop() == 0)
  }

  @Test("Python's h2 finds nothing that violates RFC 9113, in a hundred requests at once and to the end of a drain")
  func python() throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    let client = try ChildProcess(
      Repository.python, [Repository.script("http2_client.py"), "\(server.port)", ground.certificateFile])
    #expect(try client.line() == "ready", "\(client.standardError)")
    #expect(server.stop() == 0)
    #expect(try client.line() == "ok", "\(client.standardError)")
    #expect(client.wait() == 0)
  }

  @Test("Chromium uses HTTP/2, and its concurrent requests share a connection")
  func chromium() throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    let page = "https://localhost:\(server.port)/healthz"
    let script = """
      const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => ask(`/token?ttl=${1000 + index}`)));
      answers.push(await ask("/token", { method: "HEAD" }));
      answers.push(await ask("/nowhere"));
      const entries = performance.getEntriesByType("resource");
      return {
        statuses: answers.map((answer) => `${answer.status}`).join(" "),
        protocols: [...new Set(entries.map((entry) => entry.nextHopProtocol))].join(" "),
        navigation: performance.getEntriesByType("navigation")[0].nextHopProtocol,
      };
      """
    let value = try Browser.shared().run(at: page, script)
    #expect(value["statuses"]?.string == Array(repeating: "200", count: 51).joined(separator: " ") + " 404")
    #expect(value["protocols"]?.string == "h2")
    #expect(value["navigation"]?.string == "h2")
    #expect(server.stop() == 0)
  }

  @Test("h2load gets all responses", arguments: [(1, 100), (20, 5)])
  func h2load(_ connections: Int, _ streams: Int) throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    let load = try run(
      "h2load", ["-t1", "-c\(connections)", "-m\(streams)", "-n2000", "https://127.0.0.1:\(server.port)/token"])
    #expect(load.stdout.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "\(load.stdout)\(load.stderr)")
    #expect(load.stdout.contains("Application protocol: h2"))
    #expect(server.stop() == 0)
  }
}
