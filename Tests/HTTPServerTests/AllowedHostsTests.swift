import EventLoop
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPServer

/// Protection against pages whose name was made to resolve to this machine (DNS rebinding).
@Suite("The host names of a listener")
struct AllowedHostsTests {
  private static let hosts = AllowedHosts(names: ["Tokens.Example.com", "public.example."], setting: "server.hosts")

  @Test(
    "are IP addresses, names of one label, private names, and the configured names, with or without a port",
    arguments: [
      "127.0.0.1", "127.0.0.1:8080", "127.1.2.3", "192.0.2.1", "[::1]", "[::1]:8080", "[2001:db8::1]",
      "[::ffff:127.0.0.1]", "localhost", "LocalHost", "localhost:8080", "localhost.", "localhost.:8080",
      "app.localhost", "a.b.localhost.", "APP.LOCALHOST:1", "tokens.example.com", "TOKENS.example.COM:8080",
      "tokens.example.com.", "public.example", "public.example.", "valkey", "musickit-token-server:8081", "Internal.",
      "proxy_1", "evil-localhost", "3f2a9b1c0d4e", "0xylophone", "printer.local", "a.b.LOCAL.:1", "metrics.internal",
      "musickit.default.svc", "Musickit.Default.SVC.Cluster.Local:8080",
    ])
  func allowed(_ authority: String) {
    #expect(Self.hosts.allows(Array(authority.utf8)[...]))
  }

  @Test(
    "exclude every other name",
    arguments: [
      "", ":8080", ".", "evil.example", "evil.example:8080", "localhost.evil.example", ".localhost",
      "localhost..", "127.0.0.1.evil.example", "0x7f000001", "2130706433", "127.1", "127.0.0.1.5", "0177.0.0.1",
      "[]", "[evil.example]", "[::1", "tokens.example.com.evil.example", "a.tokens.example.com", "okens.example.com",
      "tokens.example.comx", "tokens%2Eexample.com", "%6cocalhost", "ｌocalhost", "localho\u{17F}t",
      String(repeating: "a", count: 300) + ".localhost", String(repeating: "a", count: 255), "0x", "0XAB", "127.", "..",
      ".local", "a..local", "a b", "a%2Elocal", "local.evil.example", "evil.example.local.example",
      "evil-local.example",
      "evil.notlocal", "evil.xlocal", "a.svcs", "a.intern", "musickit.default", "xn--local-.example", "k\u{212A}.local",
    ])
  func refused(_ authority: String) {
    #expect(!Self.hosts.allows(Array(authority.utf8)[...]))
  }

  private static func router(_ names: [String] = []) -> Router {
    Router([Route("/hello", [.get { _ in Response(.ok) }])], hosts: AllowedHosts(names: names, setting: "server.hosts"))
  }

  @Test(
    "are checked first, and the refusal names the setting and closes the connection", arguments: Variant.all)
  func refusal(_ variant: Variant) throws {
    let server = try TestServer(variant, router: Self.router())
    for line in [
      "GET /hello HTTP/1.1", "GET /nowhere HTTP/1.1", "PUT /hello HTTP/1.1",
      "OPTIONS /hello HTTP/1.1", "OPTIONS * HTTP/1.1", "BREW /hello HTTP/1.1", "GET http://evil.example/hello HTTP/1.1",
    ] {
      let responses = try server.responses(to: "\(line)\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n\r\n")
      #expect(responses.map(\.status) == [421], "\(line)")
      #expect(responses.first?.text.contains("\"code\":\"misdirected_request\"") == true, "\(line)")
      #expect(responses.first?.text.contains("server.hosts") == true, "\(line)")
    }
  }

  @Test("are compared with the host of an absolute-form target, whatever Host says (RFC 9112 §3.2.2)")
  func absoluteForm() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: Self.router())
    let close = "Connection: close\r\n\r\n"
    #expect(
      try server.responses(to: "GET http://evil.example/hello HTTP/1.1\r\nHost: localhost\r\n\(close)").map(\.status)
        == [421])
    #expect(
      try server.responses(to: "GET http://localhost/hello HTTP/1.1\r\nHost: evil.example\r\n\(close)").map(\.status)
        == [200])
  }

  @Test("include that of a request without a host, which no browser sends and HTTP/1.0 probes do")
  func noHost() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: Self.router())
    let responses = try server.responses(to: "GET /hello HTTP/1.0\r\n\r\n")
    #expect(responses.map(\.status) == [200])
  }

  @Test("are not checked for trusted proxies, with a PROXY header or without", arguments: [false, true])
  func trustedProxy(_ requiresProxyHeader: Bool) throws {
    let server = try TestServer(
      Variant(poller: .epoll, isTLS: false), router: Self.router(), requiresProxyHeader: requiresProxyHeader,
      trusts: \.isLoopback)
    let header = requiresProxyHeader ? "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n" : ""
    #expect(
      try server.responses(to: "\(header)GET /hello HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .map(\.status) == [200])
  }

  @Test("are compared with HTTP/2's :authority as well", .otherPrograms)
  func http2() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: Self.router(), speaksHTTP2: true)
    for (host, status) in [("evil.example", "421"), ("localhost", "200"), ("127.0.0.1", "200")] {
      let result = try run(
        "curl",
        [
          "--silent", "--noproxy", "*", "--http2-prior-knowledge", "--max-time", "60", "--output", "/dev/null",
          "--write-out", "%{http_code}", "--resolve", "\(host):\(server.port):127.0.0.1",
          "http://\(host):\(server.port)/hello",
        ])
      #expect(result.stdout == status)
    }
  }
}
