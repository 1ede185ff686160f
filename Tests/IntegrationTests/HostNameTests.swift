import Glibc
import TestSupport
import Testing

/// DNS rebinding: the host name of a page of `evil.example` resolves to this machine, so the page sends requests to the
/// server as its own origin.
@Suite("A foreign host name")
struct HostNameTests {
  private static let noList = ["SERVER_HOSTS": ""]
  private static let client = "[{ id: 'web', origins: ['https://app.example.com'] }]"

  /// The status of a request for `path` with this Host.
  private static func status(
    _ url: String, _ path: String, host: String, _ options: String...
  ) throws -> Int {
    try ParsedResponse(curl: ["-H", "Host: \(host)"] + options + ["\(url)\(path)"]).status
  }

  @Test(
    "gets 421 from a listener with anonymous callers, on loopback and on every address",
    arguments: ["127.0.0.1", "0.0.0.0"])
  func anonymous(_ address: String) throws {
    let server = try Ground().serve(Self.noList.merging(["SERVER_HOST": address]) { $1 })
    try server.process.waitForErrors("server.hosts lists no others. Requests for other hosts get 421.")
    for path in ["/token", "/v1/storefronts", "/healthz", "/readyz", "/openapi.json", "/nowhere"] {
      let response = try ParsedResponse(
        curl: [
          "--resolve", "evil.example:\(server.port):127.0.0.1", "-H", "X-Forwarded-Host: localhost",
          "http://evil.example:\(server.port)\(path)",
        ])
      #expect(response.status == 421, "\(path)")
      #expect(response.errorCode == "misdirected_request")
      #expect(response.errorDetail?.contains("server.hosts") == true)
      #expect(response["Connection"] == "close")
    }
    #expect(try Self.status(server.url, "/token", host: "evil.example", "-X", "POST") == 421)
    for host in [
      "localhost:\(server.port)", "app.localhost", "127.0.0.1", "[::1]:1", "192.0.2.1", "musickit",
      "musickit.default.svc.cluster.local", "host.docker.internal", "server.local",
    ] {
      #expect(try Self.status(server.url, "/token", host: host) == 200, "\(host)")
    }
  }

  @Test("gets no token in a browser, but localhost does")
  func browser() throws {
    let server = try Ground().serve(Self.noList)
    let script = "return await ask('/token');"
    let rebound = PageView(try Browser.shared().run(at: "http://evil.example:\(server.port)/healthz", script))
    #expect(rebound.type == "basic" && rebound.status == 421)
    #expect(rebound.body.contains("misdirected_request"))
    let own = PageView(try Browser.shared().run(at: "http://localhost:\(server.port)/healthz", script))
    #expect(own.status == 200)
  }

  @Test(
    "gets 421 from the admin listener on any address unless the name is listed", arguments: ["127.0.0.1", "0.0.0.0"])
  func admin(_ address: String) throws {
    let ground = try Ground()
    let server = try ground.serve(["ADMIN_HOST": address])
    let url = try #require(server.adminURL)
    for path in ["/metrics", "/healthz", "/readyz", "/access/explain"] {
      let response = try server.admin(path, "-H", "Host: metrics.example.com")
      #expect(response.status == 421 && response.errorDetail?.contains("admin.hosts") == true, "\(path)")
    }
    for (path, host) in [
      ("/metrics", "musickit-token-server-admin:8081"), ("/healthz", "10.0.0.1:8081"), ("/readyz", "localhost"),
    ] {
      #expect(try Self.status(url, path, host: host) == 200)
    }
    // As the probes of some load balancers, which name no host.
    let probe = try ParsedResponse(curl: ["--http1.0", "-H", "Host:", "\(url)/healthz"])
    #expect(probe.status == 200)
    let listed = try ground.serve(["ADMIN_HOST": address, "ADMIN_HOSTS": "['metrics.example.com']"])
    try listed.process.waitForErrors("admin.hosts lists metrics.example.com.")
    #expect(try Self.status(try #require(listed.adminURL), "/metrics", host: "metrics.example.com:8081") == 200)
    #expect(try Self.status(try #require(listed.adminURL), "/metrics", host: "evil.example") == 421)
  }

  @Test("gets 421 from the demo")
  func demo() throws {
    let demo = try RunningServer(["demo", "--port", "0"], environment: [:])
    #expect(try Self.status(demo.url, "/token", host: "evil.example") == 421)
    #expect(try Self.status(demo.url, "/token", host: "localhost") == 200)
    #expect(try demo.admin("/metrics", "-H", "Host: evil.example").status == 421)
  }

  @Test("is accepted if only clients with credentials are served")
  func credentials() throws {
    let server = try Ground().serve(
      ["ACCESS_ANONYMOUS": "", "ACCESS_CLIENTS": Self.client].merging(Self.noList) { $1 })
    let page = ["-H", "Origin: https://app.example.com"]
    #expect(
      try ParsedResponse(curl: page + ["-H", "Host: tokens.example.com", "\(server.url)/token"]).status == 200)
  }

  @Test("gets 421 if the settings list other host names, even with credentials and on every address")
  func list() throws {
    let settings = [
      "ACCESS_ANONYMOUS": "", "ACCESS_CLIENTS": Self.client, "SERVER_HOSTS": "['Tokens.example.com.']",
      "SERVER_HOST": "*",
    ]
    #expect(try Ground().run(["check-config"], settings).status == 78, "a name in a list has no dot at its end")
    let server = try Ground().serve(settings.merging(["SERVER_HOSTS": "['Tokens.example.com']"]) { $1 })
    let url = "http://127.0.0.1:\(server.port)"
    for (host, status) in [("tokens.example.com:443", 200), ("127.0.0.1", 200), ("other.example.com", 421)] {
      #expect(try Self.status(url, "/token", host: host, "-H", "Origin: https://app.example.com") == status, "\(host)")
    }
  }

  @Test("is accepted from trusted proxies, on a Unix-domain socket, and with --unsafe-allow-anonymous")
  func exempt() throws {
    let ground = try Ground()
    let proxied = try ground.serve(["SERVER_TRUSTED_PROXIES": "['127.0.0.1']"].merging(Self.noList) { $1 })
    #expect(try Self.status(proxied.url, "/token", host: "tokens.example.com") == 200)
    // The admin listener trusts no proxy: the browser may run on the proxy's machine.
    for path in ["/metrics", "/access/explain"] {
      #expect(try Self.status(try #require(proxied.adminURL), path, host: "evil.example") == 421)
    }
    let open = try ground.serve(Self.noList, ["--unsafe-allow-anonymous"])
    #expect(try Self.status(open.url, "/token", host: "tokens.example.com") == 200)
    #expect(try open.admin("/metrics", "-H", "Host: evil.example").status == 200)
    let path = ground.directory.path(of: "socket")
    let unix = try ground.serve(["SERVER_UNIX_SOCKET": path, "SERVER_PORT": ""].merging(Self.noList) { $1 })
    #expect(try ParsedResponse(curl: ["--unix-socket", path, "http://tokens.example.com/token"]).status == 200)
    #expect(unix.stop() == 0)
  }

  @Test("can become valid through a reload")
  func reload() throws {
    let ground = try Ground()
    func file(_ hosts: String) throws -> String {
      try ground.directory.write("{ server: { hosts: ['\(hosts)'] }, admin: { hosts: ['\(hosts)'] } }", to: "c.json5")
    }
    let server = try ground.serve(["MUSICKIT_CONFIG": try file("one.example")].merging(Self.noList) { $1 })
    #expect(try Self.status(server.url, "/token", host: "one.example") == 200)
    _ = try file("two.example")
    server.process.signal(SIGHUP)
    try eventually("the new name is answered") { try Self.status(server.url, "/token", host: "two.example") == 200 }
    #expect(try Self.status(server.url, "/token", host: "one.example") == 421)
    #expect(try server.admin("/metrics", "-H", "Host: two.example").status == 200)
    #expect(!server.log.contains("takes effect only after a restart"))
  }
}
