import Glibc
import TestSupport
import Testing

@testable import EventLoop
@testable import HTTPServer

/// Connections that begin with a PROXY header.
@Suite("With the PROXY protocol")
struct ProxyProtocolTests {
  private static let get = "GET /who HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let header = "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"

  private static func server(
    _ variant: Variant, trusts range: String = "127.0.0.0/8", limits: ServerLimits = .init(), speaksHTTP2: Bool = false
  ) throws -> TestServer {
    try TestServer(variant, limits: limits, router: .who, speaksHTTP2: speaksHTTP2, requiresProxyHeader: true) {
      AddressRange(range)?.contains($0) ?? false
    }
  }

  /// A connection that has sent `header`, and then has started TLS if the server uses TLS.
  private static func connect(_ server: TestServer, _ variant: Variant, _ header: [UInt8]) throws -> RawClient {
    let client = try RawClient(port: server.port)
    try client.sendUnencrypted(header)
    if variant.isTLS { try client.startTLS() }
    return client
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let header: [UInt8]
    let client: String
  }

  static let cases = [
    Case(testDescription: "version 1", header: Array(header.utf8), client: "192.0.2.1 192.0.2.1"),
    Case(
      testDescription: "version 1, IPv6", header: Array("PROXY TCP6 2001:db8::1 ::1 1 2\r\n".utf8),
      client: "2001:db8::1 2001:db8::"),
    Case(testDescription: "version 1, unknown", header: Array("PROXY UNKNOWN\r\n".utf8), client: "127.0.0.1 127.0.0.1"),
    Case(
      testDescription: "version 2", header: ProxyHeaderTests.binary(0x11, ProxyHeaderTests.v4),
      client: "192.0.2.1 192.0.2.1"),
    Case(
      testDescription: "version 2, a health check", header: ProxyHeaderTests.binary(0, [], command: 0x20),
      client: "127.0.0.1 127.0.0.1"),
  ]

  @Test("the client is the one that the header names", arguments: Variant.all, cases)
  func client(_ variant: Variant, _ case: Case) throws {
    let server = try Self.server(variant)
    let client = try Self.connect(server, variant, `case`.header)
    for _ in 0..<2 {
      try client.send(Self.get)
      #expect(try client.response()?.text == "\(`case`.client) -")
    }
    #expect(
      server.recorder.clients == Array(repeating: `case`.client.split(separator: " ").first.map(String.init), count: 2))
    #expect(server.recorder.refusedProxyHeaders.isEmpty)
  }

  @Test("a header that arrives byte by byte is read", arguments: Variant.all, cases)
  func dripped(_ variant: Variant, _ case: Case) throws {
    let server = try Self.server(variant)
    let client = try RawClient(port: server.port)
    for byte in `case`.header {
      let turn = server.workers { $0.loop.turns }
      try client.sendUnencrypted([byte])
      wait(for: "a turn of the loop") { server.workers { $0.loop.turns } != turn }
    }
    if variant.isTLS { try client.startTLS() }
    try client.send(Self.get)
    #expect(try client.response()?.text == "\(`case`.client) -")
  }

  @Test("the header and two requests may arrive together", arguments: Variant.plain)
  func onePiece(_ variant: Variant) throws {
    let server = try Self.server(variant)
    let client = try RawClient(port: server.port)
    try client.send(Self.header + Self.get + Self.get)
    for _ in 0..<2 { #expect(try client.response()?.text == "192.0.2.1 192.0.2.1 -") }
  }

  @Test("HTTP/2 may follow the header", .otherPrograms, arguments: Variant.plain)
  func http2(_ variant: Variant) throws {
    let server = try Self.server(variant, speaksHTTP2: true)
    let result = try run(
      "curl",
      [
        "--silent", "--haproxy-protocol", "--http2-prior-knowledge", "--max-time", "60",
        "http://127.0.0.1:\(server.port)/who",
      ])
    #expect(result.stdout == "127.0.0.1 127.0.0.1 -")
  }

  @Test(
    "a trusted proxy without a valid header is closed without a response", arguments: Variant.all,
    [
      (get, ProxyHeaderError.missing), ("\u{16}\u{03}\u{01}" + get, .missing), ("PROXY HTTP" + get, .malformedText),
      (header.replacing("\r\n", with: "\n") + get, .malformedText), ("PROXY TCP4 \(get)", .malformedText),
      ("\r\n\r\n\0\r\nQUIT\r" + get, .missing), ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .missing),
      ("PROXY UNKNOWN", .incomplete),
    ])
  func refused(_ variant: Variant, _ case: (text: String, error: ProxyHeaderError)) throws {
    let server = try Self.server(variant, speaksHTTP2: true)
    let client = try RawClient(port: server.port)
    try client.sendUnencrypted(Array(`case`.text.utf8))
    if `case`.error == .incomplete { client.finishSending() }
    #expect(try client.restUndecrypted().isEmpty)
    #expect(server.recorder.statuses.isEmpty)
    #expect(server.recorder.refusedProxyHeaders == [`case`.error])
    #expect(server.recorder.tlsFailures.isEmpty)
    server.waitForConnections(0)
  }

  @Test("a connection that ends before its first byte is not reported", arguments: Variant.all)
  func silent(_ variant: Variant) throws {
    let server = try Self.server(variant)
    let client = try RawClient(port: server.port)
    client.finishSending()
    #expect(try client.restUndecrypted().isEmpty)
    #expect(server.recorder.refusedProxyHeaders.isEmpty)
  }

  @Test("a header has the same deadline as a TLS handshake", arguments: Variant.all)
  func late(_ variant: Variant) throws {
    var limits = ServerLimits()
    limits.tlsHandshake = .milliseconds(50)
    let server = try Self.server(variant, limits: limits)
    let client = try RawClient(port: server.port)
    try client.sendUnencrypted(Array("PROXY TCP4 ".utf8))
    #expect(try client.restUndecrypted().isEmpty)
    #expect(server.recorder.refusedProxyHeaders == [.incomplete])
  }

  @Test(
    "a header from an untrusted peer is a malformed request, and its requests without a header are answered",
    arguments: Variant.plain)
  func untrusted(_ variant: Variant) throws {
    let server = try Self.server(variant, trusts: "10.0.0.0/8")
    let responses = try server.responses(to: Self.header + Self.get)
    #expect(responses.map(\.status) == [400])
    #expect(try server.responses(to: "GET /who HTTP/1.0\r\n\r\n").map(\.text) == ["127.0.0.1 127.0.0.1 -"])
    #expect(server.recorder.refusedProxyHeaders.isEmpty)
    #expect(server.recorder.clients == ["127.0.0.1", "127.0.0.1"])
  }

  @Test("a header from an untrusted peer is a failed TLS handshake", arguments: Variant.tls)
  func untrustedTLS(_ variant: Variant) throws {
    let server = try Self.server(variant, trusts: "10.0.0.0/8")
    let client = try RawClient(port: server.port)
    try client.sendUnencrypted(Array(Self.header.utf8))
    #expect(try !client.restUndecrypted().starts(with: Array("HTTP/1.1 200".utf8)))
    #expect(server.recorder.tlsFailures.count == 1)
    let other = try server.connect()
    try other.send(Self.get)
    #expect(try other.response()?.text == "127.0.0.1 127.0.0.1 -")
  }

  @Test(
    "forwarding fields of the header's client count only if that client is a trusted proxy",
    arguments: [
      ("PROXY TCP4 192.0.2.1 1.1.1.1 1 2", "192.0.2.1", 1), ("PROXY TCP4 127.0.0.9 1.1.1.1 1 2", "203.0.113.1", 0),
      ("PROXY UNKNOWN", "127.0.0.1", 1), ("PROXY TCP6 ::ffff:127.0.0.9 ::1 1 2", "203.0.113.1", 0),
    ])
  func chain(header: String, client: String, ignored: Int) throws {
    let server = try Self.server(Variant.plain[0])
    let responses = try server.responses(
      to: header + "\r\nGET /who HTTP/1.0\r\nX-Forwarded-For: 203.0.113.1\r\nX-Request-ID: mine\r\n\r\n")
    #expect(responses.map(\.text) == ["\(client) \(client) -"])
    #expect(responses.map { $0["x-request-id"] == "mine" } == [ignored == 0])
    #expect(server.recorder.ignoredForwarding.untrusted.count == ignored)
  }

  @Test("a health check of the proxy may have forwarding fields", arguments: Variant.plain)
  func local(_ variant: Variant) throws {
    let server = try Self.server(variant)
    let client = try Self.connect(server, variant, ProxyHeaderTests.binary(0, [], command: 0x20))
    try client.send("GET /who HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n")
    #expect(try client.response()?.text == "203.0.113.1 203.0.113.1 -")
  }

  @Test("a second header is a malformed request", arguments: Variant.plain)
  func second(_ variant: Variant) throws {
    let server = try Self.server(variant)
    #expect(try server.responses(to: Self.header + Self.header + Self.get).map(\.status) == [400])
    #expect(server.recorder.clients == ["192.0.2.1"])
  }

  @Test(
    "trusted proxies stay exempt from the limit per address, whatever client the header names", arguments: Variant.plain
  )
  func limits(_ variant: Variant) throws {
    var limits = ServerLimits()
    limits.connectionsPerAddress = 1
    let server = try Self.server(variant, limits: limits)
    let clients = try (0..<3).map { _ in try Self.connect(server, variant, Array(Self.header.utf8)) }
    for client in clients {
      try client.send(Self.get)
      #expect(try client.response()?.status == 200)
    }
  }

  @Test("a connection that waits for its header holds almost no memory", arguments: Variant.all)
  func memory(_ variant: Variant) throws {
    let server = try Self.server(variant)
    let client = try RawClient(port: server.port)
    try client.sendUnencrypted(Array("PROXY ".utf8))
    server.waitForConnections(1) { $0.transport.input.count == 6 && $0.state.occupation == .resting }
    let held = server.workers { worker in
      worker.connections.map {
        $0.transport.input.capacity + $0.transport.output.capacity + $0.transport.outgoing.capacity
      }
    }
    #expect(held.joined().allSatisfy { $0 < 1024 })
  }

  @Test("a server that drains answers a request whose header had arrived", arguments: Variant.all)
  func drain(_ variant: Variant) throws {
    let server = try Self.server(variant)
    let client = try Self.connect(server, variant, Array(Self.header.utf8))
    server.waitForConnections(1) { $0.peer.address.ipAddress == IPAddress("192.0.2.1") }
    server.server.beginDrain()
    try client.send(Self.get)
    let response = try #require(try client.response())
    #expect(response.text == "192.0.2.1 192.0.2.1 -")
    #expect(response.isLast)
  }
}
