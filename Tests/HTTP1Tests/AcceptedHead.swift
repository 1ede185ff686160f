import HTTP1
import Testing

/// A request head that must be accepted, and its parts.
struct AcceptedHead: CustomTestStringConvertible, Sendable {
  let input: LabelledBytes
  var method = "GET"
  var form = RequestHead.TargetForm.origin
  var path = "/"
  var query: String?
  var authority = "a"
  var version = HTTPVersion.http11
  var framing = MessageFraming.none
  var keepAlive = true
  var expectsContinue = false
  var testDescription: String { input.testDescription }

  init(_ label: String, _ text: String, _ change: (inout Self) -> Void = { _ in }) {
    input = LabelledBytes(label, text)
    change(&self)
  }

  /// A POST with `lines` after the Host field line.
  static func lines(_ label: String, _ lines: String, _ change: (inout Self) -> Void = { _ in }) -> Self {
    var head = Self(label, "POST / HTTP/1.1\r\nHost: a\r\n\(lines)\r\n\r\n", change)
    head.method = "POST"
    return head
  }

  /// A GET whose Host field has the value `host`.
  static func host(_ label: String, _ host: String) -> Self {
    Self(label, "GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n") { $0.authority = host }
  }

  static let all = requestLines + targets + hosts + framing + connection
}

extension AcceptedHead {
  static let requestLines: [Self] = [
    .init("the smallest", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("one empty line in front", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("a body behind it", "GET / HTTP/1.1\r\nHost: a\r\n\r\nnot\0part of it\n"),
    .init("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    .init("HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n") { $0.method = "HEAD" },
    .init("PUT", "PUT / HTTP/1.1\r\nHost: a\r\n\r\n") { $0.method = "PUT" },
    .init("TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n") { $0.method = "TRACE" },
    .init("PATCH", "PATCH / HTTP/1.1\r\nHost: a\r\n\r\n") { $0.method = "PATCH" },
    .init("DELETE", "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n") { $0.method = "DELETE" },
    .init("lower-case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n") { $0.method = "get" },
    .init("unknown method", "M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n") { $0.method = "M-SEARCH" },
    .init("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n") {
      ($0.version, $0.authority, $0.keepAlive) = (.http10, "", false)
    },
  ]

  static let targets: [Self] = [
    .init("path and query", "GET /token?ttl=3600&origin=https://b HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.path, $0.query) = ("/token", "ttl=3600&origin=https://b")
    },
    .init("empty query", "GET /a? HTTP/1.1\r\nHost: a\r\n\r\n") { ($0.path, $0.query) = ("/a", "") },
    .init("second question mark", "GET /a?b?c HTTP/1.1\r\nHost: a\r\n\r\n") { ($0.path, $0.query) = ("/a", "b?c") },
    .init("brackets as browsers send them", "GET /v1/catalog/us?ids[songs]=1|2 HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.path, $0.query) = ("/v1/catalog/us", "ids[songs]=1|2")
    },
    .init("what scripts do not encode stays", "GET /<é>?\"é\u{1f3b8}\"=<> HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.path, $0.query) = ("/<é>", "\"é\u{1f3b8}\"=<>")
    },
    .init("escapes stay", "GET /%C3%A9/%2e%2E/a HTTP/1.1\r\nHost: a\r\n\r\n") { $0.path = "/%C3%A9/%2e%2E/a" },
    .init("two slashes in front", "GET //b.example/ HTTP/1.1\r\nHost: a\r\n\r\n") { $0.path = "//b.example/" },
    .init("absolute-form wins over Host", "GET http://b:80/c?d HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.form, $0.authority, $0.path, $0.query) = (.absolute, "b:80", "/c", "d")
    },
    .init("absolute-form without a path", "GET HTTPS://[::1] HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.form, $0.authority, $0.path) = (.absolute, "[::1]", "")
    },
    .init("absolute-form with a query alone", "GET http://b?c HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.form, $0.authority, $0.path, $0.query) = (.absolute, "b", "", "c")
    },
    .init("asterisk-form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.method, $0.form, $0.path) = ("OPTIONS", .asterisk, "*")
    },
    .init("authority-form", "CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n") {
      ($0.method, $0.form, $0.authority, $0.path) = ("CONNECT", .authority, "b:443", "")
    },
  ]

  static let hosts: [Self] = [
    .host("port", "a.example:8080"), .host("largest port", "a:65535"), .host("empty port", "a:"),
    .host("IPv4", "127.0.0.1:80"), .host("escape", "a%C3%A9"), .host("sub-delims", "a!$&'()*+;=~_b"),
    .host("any address", "[::]"), .host("loopback with a port", "[::1]:80"),
    .host("all groups", "[2001:DB8:3:4:5:6:7:8]"), .host("compressed end", "[1::]"),
    .host("seven groups and compression", "[1:2:3:4:5:6:7::]"), .host("compressed middle", "[1::8]"),
    .host("seven groups behind compression", "[::2:3:4:5:6:7:8]"),
    .host("mapped IPv4", "[::ffff:192.0.2.1]"), .host("six groups and IPv4", "[1:2:3:4:5:6:192.0.2.255]"),
  ]

  static let framing: [Self] = [
    .lines("length", "Content-Length: 5") { $0.framing = .fixed(5) },
    .lines("length 0", "content-length:0") { $0.framing = .fixed(0) },
    .lines("length with a leading zero", "Content-Length: 005") { $0.framing = .fixed(5) },
    .lines("the largest length", "Content-Length: \t9223372036854775807 ") { $0.framing = .fixed(.max) },
    .lines("chunked", "Transfer-Encoding: chunked") { $0.framing = .chunked },
    .lines("chunked in another case", "TRANSFER-encoding: \t Chunked \t") { $0.framing = .chunked },
    .lines("100-continue", "Expect: 100-Continue\r\nContent-Length: 5") {
      ($0.framing, $0.expectsContinue) = (.fixed(5), true)
    },
    .lines("100-continue without a body", "Expect: 100-continue"),
    .lines("empty Expect", "Expect: "),
    .init(
      "Expect in HTTP/1.0", "POST / HTTP/1.0\r\nExpect: 100-continue, else\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
    ) { ($0.method, $0.version, $0.framing, $0.keepAlive) = ("POST", .http10, .fixed(5), false) },
  ]

  static let connection: [Self] = [
    .lines("close", "Connection: close") { $0.keepAlive = false },
    .lines("close in a list", "Connection: foo ,\tCLOSE") { $0.keepAlive = false },
    .lines("close on a second line", "Connection: keep-alive\r\nConnection: close") { $0.keepAlive = false },
    .lines("an option that only begins with close", "Connection: closed, enclose"),
    .lines("empty Connection", "Connection: ,"),
    .lines(
      "tabs, emptiness and obs-text in values", "A: b\tc\r\nD:\r\nE: \u{e9} \r\nF: \t g\t \r\n!#$%&'*+-.^_`|~1: h"),
    .init("keep-alive in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n") {
      $0.version = .http10
    },
    .init("keep-alive and close in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n") {
      ($0.version, $0.keepAlive) = (.http10, false)
    },
  ]
}
