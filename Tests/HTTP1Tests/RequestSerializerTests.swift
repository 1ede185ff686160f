import HTTP1
import HTTPTypes
import Testing

@Suite("The request serializer")
struct RequestSerializerTests {
  private func text(
    _ method: HTTPRequest.Method, _ target: String = "/", fields: FieldLines = [:], framing: MessageFraming = .none
  ) throws(RequestError) -> String {
    var output: [UInt8] = []
    try RequestSerializer.append(
      method, target: target.utf8.span, host: "a.example:81", fields: fields, framing: framing, to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  @Test("writes the target unchanged, and all fields except those of the connection")
  func whole() throws {
    var fields: FieldLines = [
      .accept: "*/*", .connection: "close", .contentLength: "7", .transferEncoding: "chunked", .te: "trailers",
      .upgrade: "h2c", .trailer: "Digest", .proxyAuthorization: "Basic eDp5",
    ]
    for name in ["Host", "Keep-Alive", "Proxy-Connection"] {
      fields[try #require(HTTPField.Name(name))] = "b"
    }
    let target = "/v1/catalog/us/songs?ids[songs]=1,2&term=%C3%A9+f'|{}"
    #expect(
      try text(.get, target, fields: fields) == """
        GET \(target) HTTP/1.1\r
        Host: a.example:81\r
        Accept: */*\r
        \r\n
        """)
  }

  @Test(
    "writes the field line that frames the content",
    arguments: [
      (.get, .none, ""), (.delete, .none, ""), (.post, .none, "Content-Length: 0\r\n"),
      (.post, .fixed(12), "Content-Length: 12\r\n"), (.put, .chunked, "Transfer-Encoding: chunked\r\n"),
    ] as [(HTTPRequest.Method, MessageFraming, String)])
  func framing(method: HTTPRequest.Method, framing: MessageFraming, line: String) throws {
    let expected = "\(method.rawValue) / HTTP/1.1\r\nHost: a.example:81\r\n\(line)\r\n"
    #expect(try text(method, framing: framing) == expected)
  }

  @Test(
    "refuses a target that is malformed or not in origin form",
    arguments: ["", "a", "*", "http://a/", "/a b", "/a\r\nX: y", "/a\nb", "/\t", "/\0", "/\u{7f}", "/é"])
  func targets(target: String) {
    #expect(throws: RequestError.malformedTarget) { try text(.get, target) }
  }

  @Test("writes a head that the request head parser reads")
  func readsBack() throws {
    let bytes = Array(try text(.post, "/a?b", fields: [.accept: "x\u{0}y"], framing: .fixed(3)).utf8)
    var parser = RequestHeadParser()
    #expect(try parser.parse(array: bytes) == bytes.count)
    #expect(bytes.text(parser.head.target) == "/a?b")
    #expect(parser.head.framing == .fixed(3))
    #expect(parser.head.value("accept", bytes).map { bytes.text($0) } == "x y")
  }

  @Test("writes a CONNECT request for a tunnel through a proxy", arguments: [nil, "Basic eDp5"])
  func connect(authorization: String?) {
    var output: [UInt8] = []
    RequestSerializer.appendConnect(to: "a.example:443", authorization: authorization, &output)
    let line = authorization.map { "Proxy-Authorization: \($0)\r\n" } ?? ""
    let expected = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\(line)\r\n"
    #expect(String(decoding: output, as: UTF8.self) == expected)
  }

  @Test("writes chunks that the chunked decoder reads, and no empty chunk")
  func chunks() {
    var output: [UInt8] = []
    let large = [UInt8](repeating: 7, count: 70_000)
    for chunk in [[1, 2, 3], [], large] { output.appendChunk(chunk.span) }
    output.appendLastChunk()
    let outcome = ChunkedOutcome(output)
    #expect(outcome.verdict == .complete(length: output.count))
    #expect(outcome.data == [1, 2, 3] + large)
  }
}
