import JSON
import TestSupport
import Testing

@Suite("With the PROXY protocol", .timeLimit(.minutes(10)))
struct ProxyProtocolTests {
  private static let settings = [
    "SERVER_TRUSTED_PROXIES": "['\(FrontProxy.address)']", "SERVER_PROXY_PROTOCOL": "true",
  ]

  /// Who asked for tokens, as the access log has it, once the server has ended.
  private static func clients(_ server: RunningServer) -> [String?] {
    server.stop()
    return server.accessLines.filter { $0["http.route"]?.string == "/token" }.map { $0["client.address"]?.string }
  }

  @Test(
    "the log has the client that HAProxy tells",
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

  @Test("TLS comes behind the header", arguments: ["send-proxy", "send-proxy-v2"])
  func tls(_ option: String) throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings().merging(Self.settings) { $1 })
    let proxy = try FrontProxy.haproxy("tcp", server, server: option)
    let response = try proxy.request("/token", from: "127.0.0.7", scheme: "https", "--cacert", ground.certificateFile)
    #expect(response.status == 200)
    #expect(Self.clients(server) == ["127.0.0.7"])
  }

  @Test("HAProxy finds the server healthy, and its checks are its own")
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

  @Test("what nginx tells behind HAProxy counts only if nginx is trusted", arguments: [true, false])
  func fields(isTrusted: Bool) throws {
    let more = isTrusted ? ["SERVER_TRUSTED_PROXIES": "['\(FrontProxy.address)', '127.0.0.6']"] : [:]
    let server = try Ground().serve(Self.settings.merging(more) { $1 })
    let proxy = try FrontProxy.haproxy("tcp", server, server: "send-proxy")
    #expect(try proxy.request("/token", from: "127.0.0.6", "-H", "X-Forwarded-For: 192.0.2.1").status == 200)
    #expect(Self.clients(server) == [isTrusted ? "192.0.2.1" : "127.0.0.6"])
  }

  @Test("curl's header is read too")
  func curl() throws {
    let server = try Ground().serve(Self.settings)
    let response = try server.request("/token", "--haproxy-protocol", "--interface", FrontProxy.address)
    #expect(response.status == 200)
    #expect(Self.clients(server) == [FrontProxy.address])
  }

  @Test("a trusted proxy without a header gets nothing, and is counted and logged")
  func missing() throws {
    let server = try Ground().serve(Self.settings)
    // 52: nothing was answered; 56: or so, with a reset.
    let result = try run("curl", ["-sS", "--interface", FrontProxy.address, "\(server.url)/token"])
    #expect([52, 56].contains(result.status))
    #expect(try MetricsPage(of: server)["musickit_proxy_headers_refused_total"] == 1)
    #expect(Self.clients(server).isEmpty)
    let warning = server.logLines.compactMap { $0 }.first { $0["level"]?.string == "warning" }
    #expect(warning?["client.address"]?.string?.hasPrefix("\(FrontProxy.address):") == true)
    #expect(warning?["message"]?.string?.contains("server.proxyProtocol") == true)
  }

  @Test("from anybody else a header is a malformed request")
  func untrusted() throws {
    let server = try Ground().serve(Self.settings)
    #expect(try server.request("/token").status == 200)
    let response = try server.request("/token", "--haproxy-protocol")
    #expect(response.status == 400 && response.errorCode == "malformed_request")
  }

  @Test("the admin listener takes no header, and needs none")
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
