import HTTP1
import Testing

/// A request head that must be refused, and the error.
struct RefusedHead: CustomTestStringConvertible, Sendable {
  let input: LabelledBytes
  let error: RequestError
  var testDescription: String { input.testDescription }

  init(_ label: String, _ bytes: [UInt8], _ error: RequestError) {
    input = LabelledBytes(label, bytes)
    self.error = error
  }

  /// A whole head as text.
  init(_ label: String, _ text: String, _ error: RequestError) {
    self.init(label, Array(text.utf8), error)
  }

  /// A well-formed request line and Host, then `lines`.
  static func lines(_ label: String, _ lines: String, _ error: RequestError) -> Self {
    Self(label, "POST /token HTTP/1.1\r\nHost: a.example\r\n\(lines)\r\n\r\n", error)
  }

  static func target(_ label: String, _ target: String, _ error: RequestError) -> Self {
    Self(label, "GET \(target) HTTP/1.1\r\nHost: a.example\r\n\r\n", error)
  }

  /// A GET whose Host field has the value `host`.
  static func host(_ label: String, _ host: String, _ error: RequestError = .malformedHost) -> Self {
    Self(label, "GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n", error)
  }

  static let all = requestLines + targets + hosts + fieldLines + framing + limits
}

extension RefusedHead {
  static let requestLines: [Self] = [
    .init("bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", .bareLineFeed),
    .init("bare LF in front", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", .bareLineFeed),
    .init("bare CR in front", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", .bareCarriageReturn),
    .init("bare CR in the request line", "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", .bareCarriageReturn),
    .init("two empty lines in front", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", .repeatedEmptyLine),
    .init("space in front", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("tab in front", "\tGET / HTTP/1.1\r\nHost: a\r\n\r\n", .controlCharacter),
    .init("NUL in the method", "G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", .controlCharacter),
    .init("TLS ClientHello", [0x16, 0x03, 0x01, 0x02, 0x00, 0x01], .controlCharacter),
    .init("method with a colon", "GET: / HTTP/1.1\r\nHost: a\r\n\r\n", .malformedMethod),
    .init("method beyond ASCII", "GÉT / HTTP/1.1\r\nHost: a\r\n\r\n", .malformedMethod),
    .init("method alone", "GET\r\n\r\n", .malformedRequestLine),
    .init("method of 33 bytes", "\(String(repeating: "A", count: 33)) / HTTP/1.1\r\n", .methodTooLong),
    .init("endless method", String(repeating: "A", count: 9000), .methodTooLong),
    .init("HTTP/0.9", "GET /\r\n", .malformedRequestLine),
    .init("two spaces before the target", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("space behind the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", .controlCharacter),
    .init("tab before the version", "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", .controlCharacter),
    .init("space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("version without minor", "GET / HTTP/1\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("version of two digits", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("version with a comma", "GET / HTTP/1,1\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("another protocol", "GET / ICAP/1.0\r\nHost: a\r\n\r\n", .malformedRequestLine),
    .init("HTTP/0.9 by name", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", .unsupportedVersion),
    .init("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", .unsupportedVersion),
    .init("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .unsupportedVersion),
  ]

  static let targets: [Self] = [
    .target("NUL", "/a\0b", .controlCharacter),
    .target("DEL", "/a\u{7f}b", .controlCharacter),
    .target("beyond ASCII in the scheme", "é://a.example/", .unsupportedScheme),
    .target("beyond ASCII in the host", "http://é.example/", .malformedHost),
    .target("encoded NUL", "/a%00b", .encodedNUL),
    .target("encoded NUL in the query", "/?a%00", .encodedNUL),
    .target("fragment", "/a#b", .fragmentInTarget),
    .target("fragment in the query", "/a?b#c", .fragmentInTarget),
    .target("cut escape", "/a%2", .malformedPercentEncoding),
    .target("percent sign alone", "/100%", .malformedPercentEncoding),
    .target("escape of no number", "/%zz", .malformedPercentEncoding),
    .target("escape of no number in the query", "/?%g0", .malformedPercentEncoding),
    .target("backslash in the path", "/a\\b", .malformedTarget),
    .target("brace in the path", "/{", .malformedTarget),
    .target("relative", "token", .malformedTarget),
    .target("query alone", "?a", .malformedTarget),
    .target("asterisk-form with GET", "*", .malformedTarget),
    .target("authority-form with GET", "a.example:443", .malformedTarget),
    .target("another scheme", "ftp://a.example/", .unsupportedScheme),
    .target("empty scheme", "://a.example/", .unsupportedScheme),
    .target("one slash", "http:/a.example/", .malformedTarget),
    .target("absolute without a host", "http:///token", .malformedHost),
    .target("absolute with a port alone", "http://:80/token", .malformedHost),
    .target("absolute with userinfo", "http://a.example@evil.example/", .malformedHost),
    .target("absolute with a fragment", "http://a.example#b", .fragmentInTarget),
    .target("absolute with an encoded NUL in the host", "http://a%00.example/", .malformedHost),
    .init("double asterisk", "OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n", .malformedTarget),
    .init("CONNECT without a port", "CONNECT a.example HTTP/1.1\r\nHost: a\r\n\r\n", .malformedTarget),
    .init("CONNECT with a path", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", .malformedTarget),
    .init(
      "absolute without Host", "GET http://a.example/ HTTP/1.1\r\nAccept: */*\r\n\r\n", .missingHost),
  ]

  static let hosts: [Self] = [
    .init("no Host", "GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", .missingHost),
    .init("no field at all", "GET / HTTP/1.1\r\n\r\n", .missingHost),
    .lines("repeated", "Host: a.example", .repeatedHost),
    .lines("repeated in another case", "hOST: b.example", .repeatedHost),
    .host("empty", ""),
    .host("list", "a.example, b.example"),
    .host("list without a space", "a.example,b.example"),
    .host("userinfo", "user@a.example"),
    .host("path", "a.example/token"),
    .host("scheme", "http://a.example"),
    .host("space inside", "a example"),
    .host("beyond ASCII", "é.example"),
    .host("port of letters", "a.example:http"),
    .host("port with a sign", "a.example:+80"),
    .host("port beyond 65535", "a.example:65536"),
    .host("port of six digits", "a.example:000080"),
    .host("two ports", "a.example:80:80"),
    .host("port alone", ":80"),
    .host("IPv6 without brackets", "::1"),
    .host("open bracket", "[::1"),
    .host("text behind the bracket", "[::1]a"),
    .host("empty brackets", "[]"),
    .host("three colons", "[:::]"),
    .host("two compressions", "[1::2::3]"),
    .host("nine groups", "[1:2:3:4:5:6:7:8:9]"),
    .host("seven groups", "[1:2:3:4:5:6:7]"),
    .host("compression of nothing", "[1:2:3:4::5:6:7:8]"),
    .host("group of five digits", "[12345::]"),
    .host("colon at the end", "[1:2:3:4:5:6:7:]"),
    .host("colon at the start", "[:1:2:3:4:5:6:7]"),
    .host("zone", "[fe80::1%25eth0]"),
    .host("IPvFuture", "[v1.a]"),
    .host("IPv4 of three parts inside", "[::1.2.3]"),
    .host("IPv4 of five parts inside", "[::1.2.3.4.5]"),
    .host("IPv4 beyond 255 inside", "[::1.2.3.256]"),
    .host("IPv4 with a leading zero inside", "[::1.2.3.04]"),
    .host("cut escape", "a%2"),
    .host("encoded NUL", "a%00"),
    .host("NUL", "a\0", .controlCharacter),
  ]

  static let fieldLines: [Self] = [
    .lines("bare LF", "A: b\nC: d", .bareLineFeed),
    .lines("bare LF before the end", "A: b\n", .bareLineFeed),
    .lines("bare CR", "A: b\rC: d", .bareCarriageReturn),
    .lines("CR CR LF", "A: b\r", .bareCarriageReturn),
    .init("bare CR for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\rX", .bareCarriageReturn),
    .init("bare LF for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\n", .bareLineFeed),
    .lines("NUL in a value", "A: b\0c", .controlCharacter),
    .lines("NUL in a name", "A\0: b", .controlCharacter),
    .lines("vertical tab in a value", "A: b\u{0b}c", .controlCharacter),
    .lines("escape character in a value", "A: \u{1b}[0m", .controlCharacter),
    .lines("DEL in a value", "A: b\u{7f}", .controlCharacter),
    .lines("folded with a space", "A: b\r\n c", .obsoleteFolding),
    .lines("folded with a tab", "A: b\r\n\tc", .obsoleteFolding),
    .init("first line folded", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", .obsoleteFolding),
    .lines("line of spaces", "A: b\r\n  ", .obsoleteFolding),
    .lines("space before the colon", "A : b", .whitespaceInFieldName),
    .lines("tab before the colon", "A\t: b", .whitespaceInFieldName),
    .lines("space in the name", "A b: c", .whitespaceInFieldName),
    .lines("no name", ": b", .emptyFieldName),
    .lines("no colon", "A", .malformedFieldName),
    .lines("parenthesis in the name", "A(b): c", .malformedFieldName),
    .lines("name beyond ASCII", "É: b", .malformedFieldName),
    .lines("unknown expectation", "Expect: 200-ok", .unsupportedExpectation),
    .lines("known and unknown expectation", "Expect: 100-continue, x=\"a,b\"", .unsupportedExpectation),
    .lines("expectation with a parameter", "Expect: 100-continue;a", .unsupportedExpectation),
  ]
}
