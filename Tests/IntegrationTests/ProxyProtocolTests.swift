import JSON
import TestSupport
import Testing

@Suite("A server with the PROXY protocol")
struct ProxyProtocolTests {
  private static let settings = [
    "SERVER_TRUSTED_PROXIES": "['\(FrontProxy.address)']", "SERVER_PROXY_PROTOCOL": "true",
  ]

  /// The client addresses of the token requests in the access log, after the end of the server.
  private static func clients(_ server: RunningServer) -> [String?] {
    server.stop()
    return server.accessLines.filter { $0["http.route"]?.string == "/token" }.map { $0["client.address"]?.string }
  }

  @Test(
    "logs the client address that HAProxy sends",
    arguments: ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id,authority"])
  func haproxy(_ option: String) throws {
    let server = try Ground().serve(Self.settings)
    let proxy = try FrontProxy.haproxy(
      "tcp", server, server: option, ["unique-id-format %{+X}o\\ %ci%cp%ts%rt%pid"])
    #expect(try proxy.request("/token", from: "127.0.0.7").status == 200)
    #expect(try proxy.request("/token", from: "127.0.0.8", "-H", "X-Forwarded-For: 192.0.2.1").status == 200)
    #expect(try MetricsPage(of: server)["musickit_proxy_headers_refused_total"] == 0)
    #expect(Self.clients(server) == ["127.0.0.7", "127.0.0.8"])
  }

  @Test("reads the header before TLS", arguments: ["send-proxy", "send-proxy-v2"])
  func tls(_ option: String) throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings().merging(Self.settings) { $1 })
    let proxy = try FrontProxy.haproxy("tcp", server, server: option)
    let response = try proxy.request("/token", from: "127.0.0.7", scheme: "https", "--cacert", ground.certificateFile)
    #expect(response.status == 200)
    #expect(Self.clients(server) == ["127.0.0.7"])
  }

  @Test("passes HAProxy's health checks and logs them with HAProxy's address")
  func healthCheck() throws {
    let server = try Ground().serve(Self.settings)
    let lines = ["option httpchk GET /healthz", "http-check expect status 200"]
    let proxy = try FrontProxy.haproxy("tcp", server, server: "send-proxy-v2 check inter 100", lines)
    try server.process.waitForErrors("\"/healthz\"", count: 2)
    #expect(try proxy.request("/token", from: "127.0.0.7").status == 200)
    #expect(Self.clients(server) == ["127.0.0.7"])
    let checks = server.accessLines.filter { $0["http.route"]?.string == "/healthz" }
    #expect(checks.allSatisfy { $0["client.address"]?.string == FrontProxy.address })
    #expect(!server.log.contains("PROXY header"))
  }

  @Test("uses X-Forwarded-For of nginx behind HAProxy only if nginx is trusted", arguments: [true, false])
  func fields(isTrusted: Bool) throws {
    let more = isTrusted ? ["SERVER_TRUSTED_PROXIES": "['\(FrontProxy.address)', '127.0.0.6']"] : [:]
    let server = try Ground().serve(Self.settings.merging(more) { $1 })
    let proxy = try FrontProxy.haproxy("tcp", server, server: "send-proxy")
    #expect(try proxy.request("/token", from: "127.0.0.6", "-H", "X-Forwarded-For: 192.0.2.1").status == 200)
    #expect(Self.clients(server) == [isTrusted ? "192.0.2.1" : "127.0.0.6"])
  }

  @Test("reads curl's header")
  func curl() throws {
    let server = try Ground().serve(Self.settings)
    let response = try server.request("/token", "--haproxy-protocol", "--interface", FrontProxy.address)
    #expect(response.status == 200)
    #expect(Self.clients(server) == [FrontProxy.address])
  }

  @Test("gives no response to a trusted proxy without a header, but counts and logs the error")
  func missing() throws {
    let server = try Ground().serve(Self.settings)
    // 52: no response; 56: the same, with a reset.
    let result = try run("curl", ["-sS", "--interface", FrontProxy.address, "\(server.url)/token"])
    #expect([52, 56].contains(result.status))
    #expect(try MetricsPage(of: server)["musickit_proxy_headers_refused_total"] == 1)
    #expect(Self.clients(server).isEmpty)
    let warning = server.logLines.compactMap { $0 }.first { $0["level"]?.string == "warning" }
    #expect(warning?["client.address"]?.string?.hasPrefix("\(FrontProxy.address):") == true)
    #expect(warning?["message"]?.string?.contains("server.proxyProtocol") == true)
  }

  @Test("treats a header of an untrusted peer as a malformed request")
  func untrusted() throws {
    let server = try Ground().serve(Self.settings)
    #expect(try server.request("/token").status == 200)
    let response = try server.request("/token", "--haproxy-protocol")
    #expect(response.status == 400 && response.errorCode == "malformed_request")
  }

  @Test("needs and accepts no header on the admin listener")
  func admin() throws {
    let server = try Ground().serve(Self.settings)
    #expect(try server.admin("/healthz", "--interface", FrontProxy.address).status == 200)
    #expect(try server.admin("/healthz", "--interface", FrontProxy.address, "--haproxy-protocol").status == 400)
  }

  @Test("needs trusted proxies")
  func configuration() throws {
    let result = try Ground().run(["check-config"], ["SERVER_PROXY_PROTOCOL": "true"])
    #expect(result.status == 78)
    #expect(result.stderr.contains("server.proxyProtocol"))
    #expect(result.stderr.contains("server.trustedProxies"))
  }
}
