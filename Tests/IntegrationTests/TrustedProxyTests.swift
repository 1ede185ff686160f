import JSON
import TestSupport
import Testing

@Suite("The server behind trusted proxies")
struct TrustedProxyTests {
  private static let proxies = ["SERVER_TRUSTED_PROXIES": "['\(FrontProxy.address)', '10.0.0.0/8']"]

  /// The client addresses of the token requests in the access log, after the end of the server.
  private static func clients(_ server: RunningServer) -> [String?] {
    server.stop()
    return server.accessLines.filter { $0["http.route"]?.string == "/token" }.map { $0["client.address"]?.string }
  }

  @Test("logs the client address that nginx sends, never a forged address")
  func nginx() throws {
    let server = try Ground().serve(Self.proxies)
    let proxy = try FrontProxy.nginx(
      server, "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;", "proxy_set_header Forwarded \"\";")
    #expect(try proxy.request("/token", from: "127.0.0.7").status == 200)
    #expect(try proxy.request("/token", from: "127.0.0.8", "-H", "X-Forwarded-For: 192.0.2.1").status == 200)
    #expect(try proxy.request("/token", from: "127.0.0.9", "-H", "Forwarded: for=192.0.2.1").status == 200)
    #expect(Self.clients(server) == ["127.0.0.7", "127.0.0.8", "127.0.0.9"])
  }

  @Test("logs the client address that HAProxy sends in a separate field line")
  func haproxy() throws {
    let server = try Ground().serve(Self.proxies)
    let proxy = try FrontProxy.haproxy("http", server, server: "", ["option forwardfor"])
    #expect(try proxy.request("/token", from: "127.0.0.7", "-H", "X-Forwarded-For: 192.0.2.1").status == 200)
    #expect(Self.clients(server) == ["127.0.0.7"])
  }

  @Test("skips two proxies in a chain")
  func chain() throws {
    let server = try Ground().serve(Self.proxies)
    let inner = try FrontProxy.nginx(server, "proxy_set_header X-Forwarded-For \"$http_x_forwarded_for, 10.1.2.3\";")
    #expect(try inner.request("/token", from: "127.0.0.7", "-H", "X-Forwarded-For: 1.1.1.1, 192.0.2.9").status == 200)
    #expect(Self.clients(server) == ["192.0.2.9"])
  }

  @Test("counts contradictory fields for one unknown caller, and warns of their proxy once")
  func contradiction() throws {
    let server = try Ground().serve(
      Self.proxies.merging(["ACCESS_ANONYMOUS": "{ token: true, rateLimit: { perSecond: 0.01, burst: 3 } }"]) { $1 })
    let proxy = try FrontProxy.nginx(server, "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
    for _ in 0..<3 {
      #expect(try proxy.request("/token", from: "127.0.0.7", "-H", "Forwarded: for=192.0.2.1").status == 200)
    }
    // Another caller has the same bucket, and the proxy's own health checks have another one.
    #expect(try proxy.request("/token", from: "127.0.0.8", "-H", "Forwarded: for=127.0.0.1").status == 429)
    #expect(try server.request("/token", "--interface", FrontProxy.address).status == 200)
    #expect(try MetricsPage(of: server)["musickit_forwarded_ignored_total"] == 4)
    #expect(Self.clients(server) == Array(repeating: "unknown", count: 4) + [FrontProxy.address])
    let warnings = server.logLines.compactMap { $0 }.filter { $0["level"]?.string == "warning" }
    #expect(warnings.map { $0["client.address"]?.string } == [FrontProxy.address])
    #expect(warnings.first?["message"]?.string?.contains("server.forwarded") == true)
  }

  @Test("ignores the fields of an untrusted peer, with one warning per peer and a metric")
  func untrusted() throws {
    let server = try Ground().serve(Self.proxies)
    #expect(try MetricsPage(of: server)["musickit_forwarded_ignored_total"] == 0)
    for address in ["127.0.0.1", "127.0.0.2"] {
      for field in ["Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1", "X-Request-ID: mine"] {
        #expect(try server.request("/token", "--interface", address, "-H", field)["X-Request-ID"] != "mine")
      }
      _ = try server.request("/token", "--interface", address)
    }
    #expect(try MetricsPage(of: server)["musickit_forwarded_ignored_total"] == 6)
    let addresses = ["127.0.0.1", "127.0.0.2"].flatMap { Array(repeating: $0, count: 4) }
    #expect(Self.clients(server) == addresses)
    let warnings = server.logLines.compactMap { $0 }.filter { $0["level"]?.string == "warning" }
    #expect(warnings.map { $0["client.address"]?.string } == ["127.0.0.1", "127.0.0.2"])
    #expect(warnings.allSatisfy { $0["message"]?.string?.contains("server.trustedProxies") == true })
    #expect(!server.log.contains("192.0.2.1"))
  }

  @Test("trusts the fields of every peer on a Unix-domain socket")
  func unixSocket() throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "http.sock")
    var settings = ground.settings
    settings["SERVER_PORT"] = nil
    settings["SERVER_UNIX_SOCKET"] = path
    settings["SERVER_FORWARDED"] = "forwarded"
    let server = try RunningServer([], environment: settings)
    for field in ["Accept: */*", "Forwarded: for=\"[2001:db8::1]:4711\""] {
      #expect(try ParsedResponse(curl: ["--unix-socket", path, "-H", field, "http://localhost/token"]).status == 200)
    }
    #expect(Self.clients(server) == ["unix", "2001:db8::1"])
  }
}
