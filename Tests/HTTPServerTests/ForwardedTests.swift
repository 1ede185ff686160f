import EventLoop
import HTTP1
import TestSupport
import Testing

@testable import HTTPServer

/// The client address of a request behind proxies.
@Suite("Behind proxies")
struct ForwardedTests {
  /// Loopback, and the addresses that the tests use for proxies.
  static let trusted = ["127.0.0.0/8", "10.0.0.0/8", "fd00::/8"].compactMap { AddressRange($0) }

  static func server(
    trustsAnybody: Bool = true, speaksHTTP2: Bool = false, field: ForwardedHops.Field = .forwardedFor,
    _ variant: Variant = Variant.plain[0]
  ) throws -> TestServer {
    try TestServer(variant, router: .who, speaksHTTP2: speaksHTTP2, forwardedField: field) { address in
      trustsAnybody && trusted.contains { $0.contains(address) }
    }
  }

  struct Case: CustomTestStringConvertible {
    let fields: [String]
    /// The field that counts.
    let counts: ForwardedHops.Field
    let client: String
    let rateLimitPrefix: String

    init(
      _ fields: String..., counts: ForwardedHops.Field? = nil, client: String, rateLimitPrefix: String? = nil
    ) {
      (self.fields, self.client, self.rateLimitPrefix) = (fields, client, rateLimitPrefix ?? client)
      let isForwarded = fields.first?.lowercased().hasPrefix("forwarded:") ?? false
      self.counts = counts ?? (isForwarded ? .forwarded : .forwardedFor)
    }

    var testDescription: String { fields.joined(separator: " | ") }
  }

  static let cases = [
    Case(client: "127.0.0.1"),
    Case("X-Forwarded-For: 192.0.2.1", client: "192.0.2.1"),
    Case("X-Forwarded-For: 1.1.1.1, 192.0.2.1", client: "192.0.2.1"),
    Case("X-Forwarded-For: 1.1.1.1, 192.0.2.1, 10.0.0.1, 10.2.3.4:99", client: "192.0.2.1"),
    Case("X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 192.0.2.1", client: "192.0.2.1"),
    Case("X-Forwarded-For: 192.0.2.1", "Accept: */*", "x-forwarded-for: 10.0.0.1", client: "192.0.2.1"),
    Case("X-Forwarded-For: 2001:db8:1:2:3:4:5:6", client: "2001:db8:1:2:3:4:5:6", rateLimitPrefix: "2001:db8:1:2::"),
    Case("X-Forwarded-For: [2001:DB8::1]:443", client: "2001:db8::1", rateLimitPrefix: "2001:db8::"),
    Case("X-Forwarded-For: ::ffff:192.0.2.1", client: "192.0.2.1"),
    Case("X-Forwarded-For: 192.0.2.1, ::ffff:10.0.0.1", client: "192.0.2.1"),
    // All trusted: the farthest.
    Case("X-Forwarded-For: 10.0.0.3, 10.0.0.2", client: "10.0.0.3"),
    Case("X-Forwarded-For: fd00::1", client: "fd00::1", rateLimitPrefix: "fd00::"),
    // No address: the farthest known.
    Case("X-Forwarded-For: 1.1.1.1, unknown", client: "127.0.0.1"),
    Case("X-Forwarded-For: 1.1.1.1, unknown, 10.0.0.1", client: "10.0.0.1"),
    Case("X-Forwarded-For: 1.1.1.1, fe80::1%eth0, 10.0.0.1", client: "10.0.0.1"),
    Case("X-Forwarded-For: 01.1.1.1", client: "127.0.0.1"),
    Case("X-Forwarded-For: 192.0.2.1, localhost", client: "127.0.0.1"),
    Case("X-Forwarded-For:", client: "127.0.0.1"),
    Case("X-Forwarded-For: 192.0.2.1", "X-Forwarded-For:", client: "192.0.2.1"),
    Case("Forwarded: for=192.0.2.1;proto=https", client: "192.0.2.1"),
    Case("Forwarded: for=1.1.1.1, for=192.0.2.1, for=\"[fd00::5]:80\"", client: "192.0.2.1"),
    Case(
      "Forwarded: for=1.1.1.1", "forwarded: For=\"[2001:db8::1]:4711\"", client: "2001:db8::1",
      rateLimitPrefix: "2001:db8::"
    ),
    Case("Forwarded: for=192.0.2.1, for=_hidden, for=10.0.0.1", client: "10.0.0.1"),
    Case("Forwarded: for=\"192.0.2.1, for=192.0.2.2", client: "192.0.2.2"),
    Case("Forwarded: proto=https", client: "127.0.0.1"),
    // Both.
    Case("Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1", client: "192.0.2.1"),
    Case("Forwarded: for=192.0.2.1, for=10.0.0.1", "X-Forwarded-For: 1.1.1.1, 192.0.2.1", client: "192.0.2.1"),
    Case("X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", client: "192.0.2.1"),
    Case("Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.2", client: "unknown"),
    Case("X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.2", client: "unknown"),
    Case("Forwarded: for=unknown", "X-Forwarded-For: 192.0.2.2", client: "unknown"),
    Case("X-Forwarded-For: 192.0.2.1", "Forwarded: for=127.0.0.1", client: "unknown"),
    Case("X-Forwarded-For: 192.0.2.1", "Forwarded: garbage", client: "unknown"),
    // Only the other one.
    Case("Forwarded: for=192.0.2.1", counts: .forwardedFor, client: "unknown"),
    Case("Forwarded: for=127.0.0.1", counts: .forwardedFor, client: "unknown"),
    Case("Forwarded:", counts: .forwardedFor, client: "unknown"),
    Case("X-Forwarded-For: 192.0.2.1", counts: .forwarded, client: "unknown"),
    // More hops than any real chain: the server reads a limited number.
    Case("X-Forwarded-For: 192.0.2.1" + String(repeating: ", 10.0.0.1", count: 31) + ", 10.0.0.2", client: "10.0.0.1"),
    Case("X-Forwarded-For: 192.0.2.1" + String(repeating: ", 10.0.0.1", count: 31), client: "192.0.2.1"),
  ]

  @Test("the client is the last address from the right that is not a trusted proxy", arguments: cases)
  func client(_ `case`: Case) throws {
    let server = try Self.server(field: `case`.counts)
    let fields = `case`.fields.map { $0 + "\r\n" }.joined()
    let expected = "\(`case`.client) \(`case`.rateLimitPrefix) -"
    let responses = try server.responses(
      to: "GET /who HTTP/1.1\r\nHost: a\r\n\(fields)\r\nGET /who HTTP/1.0\r\n\r\n")
    #expect(responses.map(\.text) == [expected, "127.0.0.1 127.0.0.1 -"])
    #expect(server.recorder.clients == [`case`.client, "127.0.0.1"])
    #expect(server.recorder.ignoredForwarding.untrusted.isEmpty)
  }

  @Test("the client of a request over HTTP/2 is determined in the same way", .otherPrograms, arguments: cases)
  func clientOverHTTP2(_ `case`: Case) throws {
    let server = try Self.server(speaksHTTP2: true, field: `case`.counts)
    // curl removes a field without a value unless the argument ends with a semicolon.
    let fields = `case`.fields.flatMap { ["-H", $0.hasSuffix(":") ? $0.dropLast() + ";" : $0] }
    let result = try run(
      "curl",
      ["--silent", "--http2-prior-knowledge", "--max-time", "60"] + fields + ["http://127.0.0.1:\(server.port)/who"])
    #expect(result.stdout == "\(`case`.client) \(`case`.rateLimitPrefix) -")
    #expect(server.recorder.clients == [`case`.client])
  }

  @Test(
    "forwarding fields of an untrusted peer are ignored and reported each time", arguments: Variant.all,
    ["Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1", "X-Request-ID: mine"])
  func untrusted(_ variant: Variant, field: String) throws {
    let server = try Self.server(trustsAnybody: false, variant)
    let request = "GET /who HTTP/1.1\r\nHost: a\r\n\(field)\r\n\r\n"
    let responses = try server.responses(to: request + request + "GET /who HTTP/1.0\r\n\r\n")
    #expect(responses.map(\.text) == Array(repeating: "127.0.0.1 127.0.0.1 -", count: 3))
    #expect(responses.allSatisfy { $0["x-request-id"] != "mine" })
    let peers = server.recorder.ignoredForwarding.untrusted
    #expect(peers.map(\.ipAddress) == Array(repeating: IPAddress("127.0.0.1"), count: 2))
  }

  @Test("fields that name different clients are reported", arguments: [true, false])
  func contradiction(agrees: Bool) throws {
    let server = try Self.server()
    let client = agrees ? 1 : 2
    _ = try server.responses(
      to: "GET /who HTTP/1.0\r\nForwarded: for=192.0.2.1\r\nX-Forwarded-For: 192.0.2.\(client)\r\n\r\n")
    #expect(server.recorder.ignoredForwarding.contradictory.count == client - 1)
  }

  @Test("the client of a request that is refused early is the peer")
  func malformed() throws {
    let server = try Self.server()
    let responses = try server.responses(to: "GET /who HTTP/1.1\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
    #expect(responses.map(\.status) == [400])
    #expect(server.recorder.clients == ["127.0.0.1"])
  }

  @Test("a peer on a Unix-domain socket is a trusted proxy")
  func unixSocket() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path(of: "socket")
    let loop = try IOLoop.start(label: "test.unix", poller: .epoll)
    let recorder = Recorder()
    let server = try Server(
      Server.Configuration(endpoint: .unix(path: path), observer: recorder), router: .who, loops: [loop])
    let client = try RawClient(path: path)
    try client.send("GET /who HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1, 192.0.2.1\r\n\r\n")
    #expect(try client.response()?.text == "192.0.2.1 192.0.2.1 -")
    try client.send("GET /who HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: unknown\r\n\r\n")
    #expect(try client.response()?.text == "unix unix -")
    server.drain(timeout: .zero)
    loop.stop()
  }
}
