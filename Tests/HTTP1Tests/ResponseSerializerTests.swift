import HTTP1
import HTTPTypes
import Testing

@Suite("The response serializer")
struct ResponseSerializerTests {
  private static let date = "Sun, 06 Nov 1994 08:49:37 GMT"

  private func text(
    _ status: HTTPResponse.Status, fields: HTTPFields = [:], contentLength: Int? = 0, date: String = date,
    requestID: String = "", keepAlive: Bool = true, version: HTTPVersion = .http11
  ) -> String {
    var output: [UInt8] = []
    ResponseSerializer.append(
      status: status, fields: fields, contentLength: contentLength, date: Array(date.utf8).span,
      requestID: Array(requestID.utf8).span, keepAlive: keepAlive, version: version, to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  @Test("writes a whole head")
  func whole() {
    let fields: HTTPFields = [.contentType: "application/json", .cacheControl: "no-store"]
    let expected = """
      HTTP/1.1 200 OK\r
      Content-Type: application/json\r
      Cache-Control: no-store\r
      Date: \(Self.date)\r
      Content-Length: 270\r
      X-Request-ID: 0a1b\r
      \r\n
      """
    #expect(text(.ok, fields: fields, contentLength: 270, requestID: "0a1b") == expected)
  }

  @Test("appends an interim response to the existing output")
  func appends() {
    var output = Array("before".utf8)
    ResponseSerializer.appendContinue(to: &output)
    #expect(String(decoding: output, as: UTF8.self) == "beforeHTTP/1.1 100 Continue\r\n\r\n")
  }

  @Test(
    "writes status lines",
    arguments: [
      (.ok, "HTTP/1.1 200 OK"),
      (.uriTooLong, "HTTP/1.1 414 URI Too Long"),
      (.created, "HTTP/1.1 201 Created"),
      (.init(code: 599), "HTTP/1.1 599 "),
      (.init(code: 299, reasonPhrase: "Half\tFine"), "HTTP/1.1 299 Half\tFine"),
    ] as [(HTTPResponse.Status, String)])
  func statusLine(status: HTTPResponse.Status, line: String) {
    #expect(text(status).hasPrefix(line + "\r\n"))
  }

  @Test("every refusal has a status line and a reason", arguments: RequestError.allCases)
  func refusals(_ error: RequestError) {
    #expect(text(error.status).hasPrefix("HTTP/1.1 \(error.status.code) \(error.status.reasonPhrase)\r\n"))
    #expect(error.reason.hasSuffix("."))
  }

  @Test("writes Content-Length in decimal", arguments: [0, 1, 9, 10, 99, 100, 65536, Int.max])
  func contentLength(_ length: Int) {
    #expect(text(.ok, contentLength: length).contains("\r\nContent-Length: \(length)\r\n"))
  }

  @Test(
    "omits Content-Length where the length is unknown or the status forbids the field",
    arguments: [
      (.ok, nil), (.continue, 0), (.noContent, 0), (.notModified, 270),
    ] as [(HTTPResponse.Status, Int?)])
  func noContentLength(status: HTTPResponse.Status, length: Int?) {
    #expect(!text(status, contentLength: length).contains("Content-Length"))
  }

  @Test(
    "writes Connection where the default of the version differs",
    arguments: [
      (true, .http11, nil), (false, .http11, "close"), (true, .http10, "keep-alive"), (false, .http10, "close"),
    ] as [(Bool, HTTPVersion, String?)])
  func connection(keepAlive: Bool, version: HTTPVersion, option: String?) {
    let head = text(.ok, keepAlive: keepAlive, version: version)
    #expect(head.hasSuffix(option.map { "\r\nConnection: \($0)\r\n\r\n" } ?? "\r\nContent-Length: 0\r\n\r\n"))
  }

  @Test(
    "drops framing and connection fields of the handler",
    arguments: [
      "Connection", "content-length", "Keep-Alive", "Transfer-Encoding", "Upgrade", "X-Request-Id",
    ])
  func framing(name: String) throws {
    var fields = HTTPFields()
    fields.append(HTTPField(name: try #require(HTTPField.Name(name)), value: "evil"))
    #expect(!text(.ok, fields: fields, requestID: "1").contains("evil"))
  }

  @Test("keeps the Date of the handler and adds no second one")
  func date() {
    let head = text(.ok, fields: [.date: "Thu, 01 Jan 1970 00:00:00 GMT"])
    #expect(head.contains("Thu, 01 Jan 1970 00:00:00 GMT"))
    #expect(!head.contains(Self.date))
  }

  @Test("never lets a value split a response", arguments: ["\r\n", "\n", "\r", "\0", "\r\n\r\n", "\u{7f}", "\u{1b}"])
  func splitting(_ control: String) {
    let evil = "abcdefgh" + control + "Evil: 1"
    var fields: HTTPFields = [.location: evil]
    fields.append(HTTPField(name: .server, lenientValue: evil.utf8))
    let head = text(
      .init(code: 299, reasonPhrase: "Fine"), fields: fields, date: evil, requestID: evil)
    let lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)
    #expect(lines.count == 8)
    for line in lines {
      #expect(!line.hasPrefix("Evil"))
      #expect(line.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f })
    }
  }

  @Test("keeps tabs and bytes beyond ASCII in values")
  func obsoleteText() {
    #expect(text(.ok, fields: [.server: "a\tb é"]).contains("\r\nServer: a\tb é\r\n"))
  }
}
