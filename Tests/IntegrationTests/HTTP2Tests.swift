import TestSupport
import Testing

@Suite("HTTP/2 for callers")
struct HTTP2Tests {
  private static func server(_ ground: Ground, _ more: [String: String] = [:]) throws -> RunningServer {
    try ground.serve(try ground.tlsSettings().merging(more) { $1 })
  }

  @Test("responses are the same as over HTTP/1.1", arguments: ["/token", "/token?ttl=0", "/nowhere", "/%zz"])
  func sameResponses(_ target: String) throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    let certificate = ground.certificateFile
    let first = try server.request(target, "--cacert", certificate, "--http1.1", "--path-as-is")
    let second = try server.request(target, "--cacert", certificate, "--http2", "--path-as-is")
    #expect(first.version == "HTTP/1.1" && second.version == "HTTP/2")
    #expect(first.status == second.status)
    #expect(first.errorCode == second.errorCode && first.errorDetail == second.errorDetail)
    let ofConnection = ["connection", "x-request-id", "date", "content-length"]
    func names(_ response: ParsedResponse) -> [String] {
      response.fields.map { $0.name.lowercased() }.filter { !ofConnection.contains($0) }.sorted()
    }
    #expect(names(first) == names(second))
    #expect(second["x-request-id"] != nil && second["date"] != nil)
  }

  @Test("server.http2: false leaves HTTP/1.1")
  func off() throws {
    let ground = try Ground()
    let server = try Self.server(ground, ["SERVER_HTTP2": "false"])
    #expect(try server.request("/token", "--cacert", ground.certificateFile, "--http2").version == "HTTP/1.1")
  }

  @Test("only ALPN begins HTTP/2, and then nothing else follows")
  func negotiation() throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    let request = Array("GET /token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
    let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    func response(_ protocols: String, to input: [UInt8]) throws -> String {
      let address = "127.0.0.1:\(server.port)"
      let result = try run(
        "openssl", ["s_client", "-connect", address, "-alpn", protocols, "-quiet", "-verify_quiet"], input: input)
      return String(decoding: result.standardOutput, as: UTF8.self)
    }
    #expect(try response("http/1.1", to: request).hasPrefix("HTTP/1.1 200 "))
    #expect(try response("http/1.1", to: preface).hasPrefix("HTTP/1.1 505 "))
    #expect(try !response("h2", to: request).contains("HTTP/1.1"))
    let page = try MetricsPage(of: server)
    #expect(page["musickit_http2_misconduct_total", ["reason": "protocol_error"]] == 1)
  }

  @Test("access, rates and the audit log hold over HTTP/2")
  func access() throws {
    let ground = try Ground()
    let server = try Self.server(
      ground, ["ACCESS_ANONYMOUS": "{ token: true, rateLimit: { perSecond: 0.01, burst: 2 } }"])
    let options = ["--cacert", ground.certificateFile]
    #expect(try server.request("/token", options[0], options[1], "--http2").status == 200)
    #expect(try server.request("/token", options[0], options[1], "--http1.1").status == 200)
    let refused = try server.request("/token", options[0], options[1], "--http2")
    #expect(refused.status == 429 && refused["retry-after"] != nil)
    #expect(try server.request("/v1/catalog/us/songs/1", options[0], options[1], "--http2").status != 200)
  }

  @Test("200 concurrent requests share connections, and the server then ends with status 0")
  func parallel() throws {
    let ground = try Ground()
    let server = try Self.server(ground)
    let client = try run(
      "curl",
      [
        "-sS", "--http2", "--parallel", "--parallel-max", "100", "--globoff", "--cacert", ground.certificateFile,
        "--write-out", "%{stderr}%{http_code} %{http_version}\n",
      ] + Array(repeating: "\(server.url)/token", count: 200))
    // The first line begins with curl's progress.
    #expect(client.stderr.split(separator: "\n").filter { $0.hasSuffix("200 2") }.count == 200)
    #expect(server.stop() == 0)
  }
}
