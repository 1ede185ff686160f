import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPServer

/// The router's `finish` sees the origin of a refused request, so that a page can read the refusal.
@Suite("A refusal before routing")
struct ReadableRefusalTests {
  /// Repeats the origin of each request in its response.
  private static let router = Router(
    [Route("/hello", [.get { _ in Response(.ok) }])],
    hosts: AllowedHosts(names: ["a"], setting: "server.hosts"), lastingField: "origin",
    finish: { response, request in
      switch request.field("origin") {
      case .absent: break
      case .repeated: response.fields[.accessControlAllowOrigin] = "repeated"
      case .single(let value): response.fields[.accessControlAllowOrigin] = String(decoding: value, as: UTF8.self)
      }
    })

  private static func long(_ count: Int) -> String { String(repeating: "a", count: count) }

  struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let target: String
    let before: String
    let after: String
    let status: Int

    init(_ label: String, _ status: Int, target: String = "/hello", before: String = "", after: String = "") {
      (testDescription, self.target, self.before, self.after, self.status) = (label, target, before, after, status)
    }
  }

  static let cases = [
    Case("bad escape", 400, target: "/hello?a=%zz"), Case("fragment", 400, target: "/hello#a"),
    Case("relative target", 400, target: "hello"), Case("another scheme", 400, target: "ftp://a/"),
    Case("encoded NUL", 400, target: "/%00"),
    Case("two lengths", 400, before: "Content-Length: 1\r\nContent-Length: 1\r\n"),
    Case("two hosts", 400, before: "Host: b\r\n"), Case("long target", 414, target: "/" + long(9000)),
    Case("expectation", 417, before: "Expect: tea\r\n"), Case("expectation behind", 417, after: "Expect: tea\r\n"),
    Case("large field before", 431, before: "A: \(long(33_000))\r\n"),
    Case("large field behind", 431, after: "A: \(long(33_000))\r\n"),
    Case("many fields before", 431, before: String(repeating: "A: b\r\n", count: 200)),
    Case("another coding", 501, before: "Transfer-Encoding: gzip\r\n"),
  ]

  @Test("over HTTP/1.1 has the origin, wherever its line is, and closes the connection", arguments: cases)
  func http1(_ item: Case) throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: Self.router)
    let text =
      "GET \(item.target) HTTP/1.1\r\nHost: a\r\n\(item.before)Origin: \t https://app \r\n\(item.after)\r\n"
      + "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
    let responses = try server.responses(to: text)
    #expect(responses.map(\.status) == [item.status])
    #expect(responses.first?["access-control-allow-origin"] == "https://app")
    #expect(responses.first?.isLast == true)
  }

  @Test("has the origin however the bytes arrive")
  func split() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: Self.router)
    let bytes = Array("GET /a?%zz HTTP/1.1\r\nHost: a\r\nX: y\r\nORIGIN:https://app\r\n\r\n".utf8)
    for cut in stride(from: 1, to: bytes.count, by: 7) {
      let client = try server.connect()
      try client.send(Array(bytes[..<cut]))
      try client.send(Array(bytes[cut...]))
      let response = try #require(try client.response())
      #expect(response.status == 400 && response["access-control-allow-origin"] == "https://app", "\(cut)")
      #expect(response.text.contains("It is %zz, at byte 4 of the target."))
    }
  }

  @Test(
    "without a single clear origin has none",
    arguments: [
      ("GET /%zz HTTP/1.1\r\nHost: a\r\nOrigin: a\r\nOrigin: b\r\n\r\n", "repeated"),
      ("GET /%zz HTTP/1.1\r\nHost: a\r\nX-Origin: a\r\nOrigins: b\r\n\r\n", nil),
      ("GET /%zz HTTP/1.1\r\nHost: a\r\nOrigin: \(long(700))\r\n\r\n", nil),
      ("GET /hello HTTP/1.1\nOrigin: a\r\n\r\n", nil), ("Origin: a /%zz HTTP/1.1\r\nHost: a\r\n\r\n", nil),
      ("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\nOrigin: a\r\n\r\n", nil),
    ] as [(String, String?)])
  func none(_ text: String, _ origin: String?) throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: Self.router)
    let responses = try server.responses(to: text)
    #expect(responses.map(\.status) == [400])
    #expect(responses.first?["access-control-allow-origin"] == origin)
  }

  @Test("a head without an end is read for a bounded time and a bounded length")
  func bounded() throws {
    var limits = ServerLimits()
    limits.headerSection = .milliseconds(200)
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), limits: limits, router: Self.router)
    let slow = try server.connect()
    try slow.send("GET /%zz HTTP/1.1\r\nHost: a\r\nOrigin: https://app\r\n")
    let late = try #require(try slow.response())
    #expect(
      late.status == 400 && late["access-control-allow-origin"] == "https://app", "the first refusal is the reason")
    let endless = try server.connect()
    try endless.send("GET /\(Self.long(RefusedHead.mostBytes))")
    #expect(try endless.response()?.status == 414)
    server.waitForConnections(0)
  }

  /// A literal header field without indexing (RFC 7541 §6.2.2).
  private static func field(_ name: String, _ value: String) -> [UInt8] {
    [0x00, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
  }

  private static func request(_ stream: UInt8, method: String = "GET", _ path: String, host: String = "a") -> [UInt8] {
    let block =
      field(":method", method) + field(":scheme", "http") + field(":path", path) + field(":authority", host)
      + field("origin", "https://app")
    return WireFrame(type: WireFrame.headers, flags: 0x5, stream: stream, content: block).bytes()
  }

  @Test(
    "over HTTP/2 ends its stream, and the request right behind it is served",
    arguments: [
      ("421", "GET", "/hello", "b.example"), ("501", "BREW", "/hello", "a"), ("405", "TRACE", "/hello", "a"),
      ("404", "TRACE", "/nowhere", "a"), ("400", "GET", "/%zz", "a"), ("400", "GET", "/hello#a", "a"),
      ("404", "GET", "/h\u{e9}llo", "a"),
    ])
  func http2(_ status: String, _ method: String, _ path: String, _ host: String) throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: Self.router, speaksHTTP2: true)
    let client = try RawClient(port: server.port)
    try client.send(
      WireFrame.preface + Self.request(1, method: method, path, host: host) + Self.request(3, "/hello"))
    client.finishSending()
    let frames = WireFrame.all(in: try client.restUndecrypted())
    #expect(Set(frames.filter { $0.type == WireFrame.headers }.map(\.stream)) == [1, 3])
    #expect(!frames.contains { $0.type == WireFrame.goAway || $0.type == WireFrame.reset })
    #expect(server.recorder.statuses.sorted() == [200, Int(status) ?? 0].sorted())
  }
}
