import HTTP1
import HTTPTypes
import Testing

/// A response, the request that it answers, and the expected outcome.
struct SampleResponse: CustomTestStringConvertible, Sendable {
  let input: LabelledBytes
  var method = HTTPRequest.Method.get
  var status = 200
  var fields: FieldLines = [:]
  var framing = MessageFraming.fixed(0)
  var contentLength: Int? = 0
  var keepAlive = true
  var content = ""
  var isWhole = true
  var testDescription: String { input.testDescription }

  init(_ label: String, _ text: String, _ change: (inout Self) -> Void = { _ in }) {
    input = LabelledBytes(label, text)
    change(&self)
  }

  static let all = statusLines + framings + connections + fieldLines

  static let statusLines: [Self] = [
    .init("the smallest", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    .init("empty phrase", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"),
    .init("no phrase and no space", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
    .init("phrase with a tab and obs-text", "HTTP/1.1 404 Ni\tch\u{e9}\r\nContent-Length: 0\r\n\r\n") {
      $0.status = 404
    },
    .init("higher minor version", "HTTP/1.7 200 OK\r\nContent-Length: 0\r\n\r\n"),
    .init("unknown code", "HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n") { $0.status = 599 },
    .init("100 before it", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    .init(
      "103 with fields that do not count",
      "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 7\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    ) { ($0.status, $0.framing, $0.contentLength) = (204, .none, nil) },
    .init(
      "eight interim responses",
      String(repeating: "HTTP/1.1 102 \r\n\r\n", count: 8) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
  ]

  static let framings: [Self] = [
    .init("length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") {
      ($0.framing, $0.contentLength, $0.content) = (.fixed(5), 5, "hello")
    },
    .init("bytes behind the content", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello") {
      ($0.framing, $0.contentLength, $0.content) = (.fixed(2), 2, "he")
    },
    .init("content that breaks off", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello") {
      ($0.framing, $0.contentLength, $0.content, $0.isWhole) = (.fixed(9), 9, "hello", false)
    },
    .init("the same length three times", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 02\r\n\r\nhi") {
      ($0.framing, $0.contentLength, $0.content) = (.fixed(2), 2, "hi")
    },
    .init("chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\n1;a=b\r\n!\r\n0\r\nX: y\r\n\r\n")
    {
      ($0.framing, $0.contentLength, $0.content) = (.chunked, nil, "hi!")
    },
    .init("until the end", "HTTP/1.1 200 OK\r\n\r\nhello") {
      ($0.framing, $0.contentLength, $0.content, $0.isWhole) = (.untilClose, nil, "hello", false)
      $0.keepAlive = false
    },
    .init("HEAD with a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n") {
      ($0.method, $0.framing, $0.contentLength) = (.head, .none, 5)
    },
    .init("HEAD, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") {
      ($0.method, $0.framing, $0.contentLength) = (.head, .none, nil)
    },
    .init("304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n") {
      ($0.status, $0.framing, $0.contentLength) = (304, .none, 5)
    },
    .init("CONNECT that succeeds", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n") {
      ($0.method, $0.framing, $0.contentLength) = (.connect, .none, 5)
    },
    .init("CONNECT that is refused", "HTTP/1.1 407 \r\nContent-Length: 2\r\n\r\nno") {
      ($0.method, $0.status, $0.framing, $0.contentLength, $0.content) = (.connect, 407, .fixed(2), 2, "no")
    },
  ]

  static let connections: [Self] = [
    .init("close", "HTTP/1.1 200 OK\r\nConnection: a, Close\r\nContent-Length: 0\r\n\r\n") { $0.keepAlive = false },
    .init("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n") { $0.keepAlive = false },
    .init("HTTP/1.0 that goes on", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"),
  ]

  /// A value that makes the header section of its response as large as the limit.
  static let long = String(repeating: "a", count: 32768 - 19 - 7)

  static let fieldLines: [Self] = [
    .init(
      "fields of the connection are left out",
      """
      HTTP/1.1 200 OK\r
      Content-Type: text/plain\r
      X-Secret: a\r
      x-SECRET: b\r
      Connection: x-secret, Keep-Alive\r
      Keep-Alive: timeout=5\r
      Proxy-Connection: keep-alive\r
      Proxy-Authenticate: Basic\r
      TE: trailers\r
      Trailer: Digest\r
      Upgrade: h2c\r
      Content-Length: 0\r
      X-Other: \t c \t d \t\r
      \r\n
      """
    ) { $0.fields = [.contentType: "text/plain", HTTPField.Name("X-Other") ?? .accept: "c \t d"] },
    .init("header section of 32768 bytes", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nVary:\(long)\r\n\r\n") {
      $0.fields = [.vary: long]
    },
    .init("repeated fields stay apart", "HTTP/1.1 200 OK\r\nVary: a\r\nVary: b\r\nContent-Length: 0\r\n\r\n") {
      $0.fields = FieldLines(HTTPFields([HTTPField(name: .vary, value: "a"), HTTPField(name: .vary, value: "b")]))
    },
  ]
}

/// A response that must be refused, and the error.
struct RefusedResponse: CustomTestStringConvertible, Sendable {
  let input: LabelledBytes
  let error: ResponseError
  var testDescription: String { input.testDescription }

  init(_ label: String, _ text: String, _ error: ResponseError) {
    input = LabelledBytes(label, text)
    self.error = error
  }

  static func lines(_ label: String, _ lines: String, _ error: ResponseError) -> Self {
    Self(label, "HTTP/1.1 200 OK\r\n\(lines)\r\n\r\nhello", error)
  }

  static let all = statusLines + fieldLines + framing + limits

  static let statusLines: [Self] = [
    .init("empty line in front", "\r\nHTTP/1.1 200 OK\r\n\r\n", .malformedStatusLine),
    .init("garbage in front", "x", .malformedStatusLine),
    .init("content of a response before", "hello HTTP/1.1 200 OK\r\n\r\n", .malformedStatusLine),
    .init("HTTP/0.9", "<html>", .malformedStatusLine),
    .init("another protocol", "SSH-2.0-OpenSSH_9.2\r\n", .malformedStatusLine),
    .init("lower case", "http/1.1 200 OK\r\n\r\n", .malformedStatusLine),
    .init("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", .unsupportedVersion),
    .init("no minor version", "HTTP/1 200 OK\r\n\r\n", .malformedStatusLine),
    .init("two spaces", "HTTP/1.1  200 OK\r\n\r\n", .malformedStatusLine),
    .init("code of two digits", "HTTP/1.1 20 OK\r\n\r\n", .malformedStatusLine),
    .init("code of four digits", "HTTP/1.1 2000 OK\r\n\r\n", .malformedStatusLine),
    .init("code with a sign", "HTTP/1.1 +20 OK\r\n\r\n", .malformedStatusLine),
    .init("code below 100", "HTTP/1.1 099 OK\r\n\r\n", .malformedStatusLine),
    .init("code above 599", "HTTP/1.1 600 OK\r\n\r\n", .malformedStatusLine),
    .init("101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", .unaskedUpgrade),
    .init("bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", .malformed(.bareLineFeed)),
    .init("bare CR", "HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n", .malformed(.bareCarriageReturn)),
    .init("NUL in the phrase", "HTTP/1.1 200 O\0K\r\n\r\n", .malformed(.controlCharacter)),
    .init("phrase without end", "HTTP/1.1 200 \(String(repeating: "a", count: 8192))", .malformedStatusLine),
  ]

  static let fieldLines: [Self] = [
    .lines("obsolete folding", "A: b\r\n c", .malformed(.obsoleteFolding)),
    .lines("space before the first name", " A: b", .malformed(.obsoleteFolding)),
    .lines("no colon", "A", .malformed(.malformedFieldName)),
    .lines("no name", ": b", .malformed(.emptyFieldName)),
    .lines("space before the colon", "A : b", .malformed(.whitespaceInFieldName)),
    .lines("name that is no token", "A(: b", .malformed(.malformedFieldName)),
    .lines("NUL in a value", "A: b\0", .malformed(.controlCharacter)),
    .lines("bare LF in a value", "A: b\nC: d", .malformed(.bareLineFeed)),
    .lines("bare CR in a value", "A: b\rC: d", .malformed(.bareCarriageReturn)),
    .lines("DEL in a name", "A\u{7f}: b", .malformed(.controlCharacter)),
  ]

  static let framing: [Self] = [
    .lines("lengths that differ", "Content-Length: 5\r\nContent-Length: 6", .conflictingContentLength),
    .lines("lengths that differ in one line", "Content-Length: 5, 6", .conflictingContentLength),
    .lines("length with a sign", "Content-Length: +5", .malformed(.malformedContentLength)),
    .lines("empty length", "Content-Length:", .malformed(.malformedContentLength)),
    .lines("length beyond range", "Content-Length: 9223372036854775808", .malformed(.malformedContentLength)),
    .lines(
      "length and chunked", "Content-Length: 5\r\nTransfer-Encoding: chunked",
      .malformed(.contentLengthWithTransferEncoding)),
    .lines(
      "chunked and length", "Transfer-Encoding: chunked\r\nContent-Length: 5",
      .malformed(.contentLengthWithTransferEncoding)),
    .lines("gzip, chunked", "Transfer-Encoding: gzip, chunked", .malformed(.unsupportedTransferCoding)),
    .lines("identity", "Transfer-Encoding: identity", .malformed(.unsupportedTransferCoding)),
    .lines("chunked twice", "Transfer-Encoding: chunked, chunked", .malformed(.unsupportedTransferCoding)),
    .lines(
      "chunked on two lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
      .malformed(.repeatedTransferEncoding)),
    .init(
      "chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
      .malformed(.transferEncodingInHTTP10)),
    .lines("a chunk without a size", "Transfer-Encoding: chunked", .malformed(.malformedChunkSize)),
  ]

  static let limits: [Self] = [
    .lines("101 lines", String(repeating: "A: b\r\n", count: 101), .malformed(.tooManyFieldLines)),
    .init(
      "header section of 32769 bytes", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nVary:\(SampleResponse.long)a\r\n\r\n",
      .malformed(.headerSectionTooLarge)),
    .lines("a long section", "A: \(String(repeating: "a", count: 32768))", .malformed(.headerSectionTooLarge)),
    .init("nine interim responses", String(repeating: "HTTP/1.1 100 \r\n\r\n", count: 9), .tooManyInterimResponses),
  ]
}
