import JSON
import TestSupport
import Testing

/// The trace context of W3C, from the caller to the log and to Apple.
@Suite("The trace of a request")
struct TraceContextTests {
  private static let trace = "0af7651916cd43dd8448eb211c80319c"
  private static let parent = "00-\(trace)-b7ad6b7169203331-01"
  private static let song = "/v1/catalog/us/songs/1200868616"

  /// The parts of a `traceparent`, or an empty list if it is malformed.
  private static func parts(_ value: String?) -> [String] {
    guard let match = value?.wholeMatch(of: /00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])/) else { return [] }
    return [match.1, match.2, match.3].map(String.init)
  }

  /// Whether the log of a request has this trace, with a span of its own.
  private static func hasTrace(_ line: JSONValue, _ trace: String) -> Bool {
    line["trace_id"]?.string == trace && line["span_id"]?.string?.wholeMatch(of: /[0-9a-f]{16}/) != nil
      && line["span_id"]?.string != "b7ad6b7169203331"
  }

  @Test("is the caller's in the log and at Apple, with a new span in each, but not the sampled flag")
  func accepted() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let server = try ground.serve(
      emulator.settings.merging(["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]) { $1 })
    for target in ["/token", Self.song] {
      #expect(try server.request(target, "-H", "traceparent: \(Self.parent)").status == 200)
    }
    server.stop()
    let lines = server.logLines.compactMap { $0 }.filter { ["access", "audit"].contains($0["message"]?.string) }
    #expect(lines.count == 4)
    #expect(lines.allSatisfy { Self.hasTrace($0, Self.trace) }, "\(server.log)")
    #expect(Set(lines.compactMap { $0["span_id"]?.string }).count == 2, "audit and access lines share the span")
    let requests = try emulator.requests()
    #expect(requests.count == 1)
    let sent = Self.parts(requests.first?["traceparent"])
    #expect(sent.first == Self.trace && sent.last == "00")
    let others = lines.compactMap { $0["span_id"]?.string } + ["b7ad6b7169203331"]
    #expect(sent.count == 3 && !others.contains(sent[1]))
  }

  @Test(
    "begins at the server if traceparent is absent, malformed or repeated",
    arguments: [
      [], ["traceparent;"], ["traceparent: 00-\(trace)-b7ad6b7169203331-01-x"],
      ["traceparent: ff-\(trace)-b7ad6b7169203331-01"], ["traceparent: \(parent)", "Traceparent: \(parent)"],
    ])
  func restarted(_ fields: [String]) throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let settings = ["ACCESS_ANONYMOUS": "{ catalog: true }", "SERVER_TRUSTED_PROXIES": "['127.0.0.1']"]
    let server = try ground.serve(emulator.settings.merging(settings) { $1 })
    let options = (fields + ["tracestate: a=1"]).flatMap { ["-H", $0] }
    let response = try ParsedResponse(curl: options + ["\(server.url)\(Self.song)"])
    #expect(response.status == 200)
    server.stop()
    let line = try #require(server.accessLines.first)
    #expect(line["trace_id"]?.string == response["X-Request-ID"])
    #expect(Self.hasTrace(line, response["X-Request-ID"] ?? ""))
    let request = try #require(try emulator.requests().first)
    #expect(Self.parts(request["traceparent"]).first == line["trace_id"]?.string)
    #expect(Self.parts(request["traceparent"]).last == "00")
    #expect(request["tracestate"] == nil)
  }

  @Test("has the tracestate and the sampled flag of trusted proxies only, and no malformed state")
  func state() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let settings = ["ACCESS_ANONYMOUS": "{ catalog: true }", "SERVER_TRUSTED_PROXIES": "['127.0.0.1']"]
    let server = try ground.serve(emulator.settings.merging(settings) { $1 })
    let cases: [(address: String, states: [String], expected: String?)] = [
      ("127.0.0.1", ["congo=t61rcWkgMzE", "rojo=1,,a=2"], "congo=t61rcWkgMzE,rojo=1,a=2"),
      ("127.0.0.1", ["Congo=1"], nil), ("127.0.0.1", ["a=\(String(repeating: "x", count: 600))"], nil),
      ("127.0.0.2", ["congo=1"], nil),
    ]
    for (address, states, _) in cases {
      let options = states.flatMap { ["-H", "tracestate: \($0)"] }
      let arguments = ["--interface", address, "-H", "traceparent: \(Self.parent)", "-H", "Cache-Control: no-store"]
      #expect(try ParsedResponse(curl: arguments + options + ["\(server.url)\(Self.song)"]).status == 200)
    }
    let requests = try emulator.requests()
    #expect(requests.map { $0["tracestate"] } == cases.map(\.expected))
    #expect(requests.allSatisfy { Self.parts($0["traceparent"]).first == Self.trace })
    #expect(
      requests.map { Self.parts($0["traceparent"]).last } == cases.map { $0.address == "127.0.0.1" ? "01" : "00" })
  }

  @Test("has a span for each attempt at Apple, and callers of several traces share a response")
  func attempts() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let server = try ground.serve(emulator.settings.merging(["ACCESS_ANONYMOUS": "{ catalog: true }"]) { $1 })
    try emulator.fail("empty-401", count: 1)
    let other = Self.parent.replacing("0af7", with: "1bf7")
    #expect(try server.request(Self.song, "-H", "traceparent: \(Self.parent)").status == 200)
    #expect(try server.request(Self.song, "-H", "traceparent: \(other)")["Cache-Status"]?.contains("; hit") == true)
    let attempts = try emulator.requests().map { Self.parts($0["traceparent"]) }
    #expect(attempts.count == 2)
    #expect(attempts.allSatisfy { $0.first == Self.trace })
    #expect(Set(attempts.map { $0[1] }).count == 2)
    server.stop()
    #expect(server.accessLines.map { $0["trace_id"]?.string?.prefix(4) } == ["0af7", "1bf7"])
  }

  @Test("reaches the server over HTTP/2 as well")
  func http2() throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings().merging(["SERVER_HTTP2": "true"]) { $1 })
    #expect(
      try server.request("/token", "--http2", "--insecure", "-H", "traceparent: \(Self.parent)").status == 200)
    server.stop()
    #expect(server.accessLines.allSatisfy { Self.hasTrace($0, Self.trace) })
    #expect(server.accessLines.count == 1)
  }

  @Test("may come from a page of an allowed origin")
  func preflight() throws {
    let server = try Ground().serve(["ACCESS_ANONYMOUS": "{ token: true, origins: ['https://a.example'] }"])
    let response = try server.request(
      "/token", "-X", "OPTIONS", "-H", "Origin: https://a.example", "-H", "Access-Control-Request-Method: GET", "-H",
      "Access-Control-Request-Headers: traceparent,tracestate")
    #expect(response["Access-Control-Allow-Headers"]?.contains("traceparent, tracestate") == true)
  }
}
