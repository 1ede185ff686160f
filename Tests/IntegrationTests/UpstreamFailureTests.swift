import JSON
import TestSupport
import Testing

@Suite("An upstream failure")
struct UpstreamFailureTests {
  private static let song = "/v1/catalog/us/songs/1200868616"

  /// The expected response and log message.
  struct Report {
    var status = 502
    var code = "upstream_error"
    let proxyStatus: String
    let logged: String
  }

  private static func expect(_ failure: Report, of server: RunningServer) throws {
    let response = try server.request(song)
    #expect(response.status == failure.status)
    #expect(response.errorCode == failure.code)
    #expect(response.error?["status"]?.string == "\(failure.status)")
    #expect(response.error?["id"]?.string == response["X-Request-ID"])
    #expect(try #require(response.errorDetail).hasSuffix("."))
    #expect(try #require(response["Proxy-Status"]).contains(failure.proxyStatus))
    #expect(response["Cache-Control"] == "no-store")
    #expect(response["Content-Type"] == "application/json")
    let told = response.fields.map(\.value).joined() + response.text
    #expect(!told.contains("eyJ") && !told.contains("OpenSSL") && !told.contains("errno"))
    try server.process.waitForErrors(failure.logged)
    server.stop()
    let warnings = server.logLines.compactMap { $0 }.filter { $0["message"]?.string?.contains(failure.logged) == true }
    #expect(warnings.count == 1, "\(server.log)")
    #expect(warnings.allSatisfy { $0["level"]?.string == "warning" })
    #expect(!server.log.contains("eyJ"))
  }

  @Test(
    "in a response causes an error object and one log line",
    arguments: [
      ("status=500", 502, "upstream_error", "received-status=500", "Apple Music responded with status 500."),
      ("status=503", 502, "upstream_error", "received-status=503", "Apple Music responded with status 503."),
      ("delay=600s", 504, "upstream_timeout", "error=connection_read_timeout", "No response began within 1 s."),
      ("reset", 502, "upstream_error", "error=http_response_incomplete", "ended too early"),
      ("truncate", 502, "upstream_error", "error=http_response_incomplete", "ended too early"),
    ])
  func responses(_ fault: String, _ status: Int, _ code: String, _ proxyStatus: String, _ logged: String) throws {
    let ground = try UpstreamGround()
    let sandbox = try ground.sandbox("--fault", fault)
    // Only what never responds must end soon: a busy machine may take longer than that for the others.
    let server = try ground.serve(sandbox, fault.hasPrefix("delay") ? ["CATALOG_TIMEOUTS_FIRST_BYTE": "1s"] : [:])
    try Self.expect(Report(status: status, code: code, proxyStatus: proxyStatus, logged: logged), of: server)
  }

  @Test("by a refused connection causes an error object and one log line")
  func refused() throws {
    let ground = try UpstreamGround()
    let server = try ground.serve("http://127.0.0.1:\(UpstreamGround.fixedPort)")
    try Self.expect(Report(proxyStatus: "error=connection_refused", logged: "No connection to 127.0.0.1"), of: server)
  }

  @Test("by an unknown host name causes an error object and one log line")
  func unknownName() throws {
    let ground = try UpstreamGround()
    let server = try ground.serve("https://host.invalid")
    try Self.expect(Report(proxyStatus: "error=dns_error", logged: "host.invalid"), of: server)
  }

  @Test("by a certificate for another host causes an error object and one log line")
  func wrongCertificate() throws {
    let ground = try UpstreamGround()
    let sandbox = try ground.sandbox("--tls", "--wrong-certificate")
    let server = try ground.serve(sandbox)
    try Self.expect(Report(proxyStatus: "error=tls_certificate_error", logged: "certificate"), of: server)
    #expect(try sandbox.requestsSeen() == 0)
  }

  @Test("by a certificate of an untrusted authority causes an error object and one log line")
  func unknownAuthority() throws {
    let ground = try UpstreamGround()
    let sandbox = try ground.sandbox("--tls")
    let server = try ground.serve(sandbox.url)
    try Self.expect(Report(proxyStatus: "error=tls_certificate_error", logged: "certificate"), of: server)
    #expect(try sandbox.requestsSeen() == 0)
  }

  @Test("by an upstream without TLS causes an error object and one log line")
  func noTLS() throws {
    let ground = try UpstreamGround()
    let sandbox = try ground.sandbox()
    let server = try ground.serve("https://127.0.0.1:\(sandbox.port)")
    try Self.expect(Report(proxyStatus: "error=tls_protocol_error", logged: "TLS"), of: server)
    #expect(try sandbox.requestsSeen() == 0)
  }

  @Test(
    "by a broken connection causes one retry of a GET or HEAD, and no retry of other methods",
    arguments: [("GET", 2), ("HEAD", 2), ("POST", 1), ("PUT", 1), ("PATCH", 1), ("DELETE", 1)], [nil, 100])
  func brokenConnection(_ request: (method: String, attempts: Int), _ streams: Int?) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: streams)
    let server = try ground.serve(upstream)
    try upstream.behave("close")
    let method = request.method == "HEAD" ? ["--head"] : ["-X", request.method]
    let response = try ParsedResponse(
      curl: method + ["-H", "Music-User-Token: user", "\(server.url)/v1/me/library/playlists"])
    #expect(response.status == 502)
    #expect(try upstream.count("requests") == request.attempts)
  }

  @Test("that persists opens the circuit, and the circuit closes when the upstream recovers")
  func circuit() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(upstream)
    try upstream.behave("status-503")
    let caller = try server.connect()
    var refusals = 0
    for number in 0..<200 {
      caller.send("GET /v1/catalog/us/songs/\(number) HTTP/1.1\r\nHost: a\r\n\r\n")
      let response = try caller.response()
      #expect(response.status == 502)
      #expect(response.errorCode == "upstream_error")
      if response["Retry-After"] != nil { refusals += 1 }
    }
    #expect(refusals > 100)
    #expect(try upstream.count("requests") + refusals == 200)
    #expect(try server.request("/readyz").json?["status"]?.string == "degraded")
    #expect(try server.admin("/readyz").json?["checks"]?["appleMusic"]?["status"]?.string == "degraded")
    try upstream.behave("ok")
    try eventually("it is asked again") { try server.request(Self.song).status == 200 }
    #expect(try server.request("/readyz").json?["status"]?.string == "ready")
    server.stop()
    #expect(server.log.split(separator: "\n").count { $0.contains("Apple Music has failed repeatedly.") } >= 1)
    #expect(server.log.split(separator: "\n").count { $0.contains("Apple Music responds again.") } == 1)
  }

  @Test("of 300 requests causes at most 1.2 attempts per request", arguments: ["status-429", "status-500", "close"])
  func budget(_ behaviour: String) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    // The pacer refuses what would be too late, so after the first 429s the test waits no longer than that.
    let server = try ground.serve(upstream, ["CATALOG_TIMEOUTS_WHOLE": "10s"])
    try upstream.behave(behaviour)
    let (statuses, wrong) = try ground.load(server, 300).loadReport()
    #expect(statuses.values.reduce(0, +) == 300)
    #expect(statuses["200"] == nil)
    #expect(wrong == .array([]))
    let attempts = try upstream.count("requests")
    #expect(attempts <= 360)
  }
}
