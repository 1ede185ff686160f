import Testing

/// A request that the codec refuses, and its response.
struct RefusedRequest: CustomTestStringConvertible, Sendable {
  let label: String
  let bytes: [UInt8]
  let status: Int
  let code: String
  var testDescription: String { label }

  init(_ label: String, _ text: String, _ status: Int = 400, _ code: String = "malformed_request") {
    self.init(label, Array(text.utf8), status, code)
  }

  init(_ label: String, _ bytes: [UInt8], _ status: Int = 400, _ code: String = "malformed_request") {
    (self.label, self.bytes, self.status, self.code) = (label, bytes, status, code)
  }

  /// A POST with these field lines after Host.
  static func lines(
    _ label: String, _ lines: String, _ status: Int = 400, _ code: String = "malformed_request"
  ) -> Self {
    Self(label, "POST /echo HTTP/1.1\r\nHost: a\r\n\(lines)\r\n\r\n", status, code)
  }

  /// One for each kind of refusal; the codec's own tests have the rest.
  static let all: [Self] = [
    .init("bare LF", "GET /hello HTTP/1.1\nHost: a\r\n\r\n"),
    .init("bare CR", "GET /hello HTTP/1.1\rHost: a\r\n\r\n"),
    .init("NUL", "GET /hel\0lo HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("two empty lines in front", "\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("HTTP/0.9", "GET /hello\r\n"),
    .init("malformed method", "GE(T /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init(
      "endless method", String(repeating: "A", count: 33) + " /hello HTTP/1.1\r\nHost: a\r\n\r\n", 501,
      "not_implemented"),
    .init(
      "endless target", "GET /\(String(repeating: "a", count: 8190)) HTTP/1.1\r\nHost: a\r\n\r\n", 414, "uri_too_long"),
    .init("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "http_version_not_supported"),
    .init("relative target", "GET hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("fragment", "GET /hello#a HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("encoded NUL", "GET /hello%00 HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("cut escape", "GET /hello%4 HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("another scheme", "GET ftp://a/hello HTTP/1.1\r\nHost: a\r\n\r\n"),
    .init("no Host", "GET /hello HTTP/1.1\r\nAccept: */*\r\n\r\n"),
    .lines("two Hosts", "Host: b"),
    .init("malformed Host", "GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n"),
    .lines("folded line", "A: b\r\n c"),
    .lines("no name", ": b"),
    .lines("space before the colon", "A : b"),
    .lines("endless header section", "A: \(String(repeating: "b", count: 32_768))", 431, "header_fields_too_large"),
    .lines("101 fields", String(repeating: "A: b\r\n", count: 100) + "A: b", 431, "header_fields_too_large"),
    .lines("signed length", "Content-Length: +5"),
    .lines("list of lengths", "Content-Length: 5, 5"),
    .lines("two lengths", "Content-Length: 5\r\nContent-Length: 5"),
    .lines("length and coding", "Content-Length: 5\r\nTransfer-Encoding: chunked"),
    .lines("coding and length", "Transfer-Encoding: chunked\r\nContent-Length: 5"),
    .init("coding in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    .lines("two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    .lines("chunked not last", "Transfer-Encoding: chunked, gzip"),
    .lines("disguised chunked", "Transfer-Encoding: \u{0b}chunked"),
    .lines("another coding", "Transfer-Encoding: gzip, chunked", 501, "not_implemented"),
    .lines("unknown expectation", "Expect: tea", 417, "expectation_failed"),
    .init("TLS on the plain port", [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01]),
    .init("random bytes", [0xff, 0xfe, 0xfd]),
  ]
}
