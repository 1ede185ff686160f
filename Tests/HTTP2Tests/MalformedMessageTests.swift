import Bytes
import HTTP1
import HTTP2
import HTTPTypes
import Testing

@Suite("A malformed message")
struct MalformedMessageTests {
  @Test("a malformed request resets only its own stream and is not reported", arguments: requests)
  func request(_ label: String, _ fields: [(String, String)]) throws {
    let server = try End(.server)
    try server.receive(Frame.preface + Frame.headers(fields, stream: 1).bytes)
    try server.receive(Frame.headers(Frame.get, stream: 3).bytes)
    #expect(server.recorder.requests == [3])
    let output = server.output()
    #expect(output.contains(Frame(.resetStream, stream: 1, [0, 0, 0, 1]).bytes), "RST_STREAM with PROTOCOL_ERROR")
    #expect(!server.recorder.events.contains { if case .closed(1, _, _) = $0 { true } else { false } })
    #expect(server.session.openStreams == 1)
  }

  static let requests: [(String, [(String, String)])] =
    values.map { ("value \($0.debugDescription)", Frame.get + [("x-a", $0)]) }
    + names.map { ("name \($0.debugDescription)", Frame.get + [($0, "a")]) }
    + (0..<3).map { missing in
      let name = [":method", ":scheme", ":path"][missing]
      return ("without \(name)", Frame.get.filter { $0.0 != name })
    }
    + Frame.get.map { ("with two of \($0.0)", [$0] + Frame.get) }
    + [
      ("without authority or Host", Frame.get.filter { $0.0 != ":authority" }),
      ("with another Host", Frame.get + [("host", "b.example")]),
      ("with control data behind fields", [("accept", "*/*")] + Frame.get),
      ("with a status", Frame.get + [(":status", "200")]),
      ("with unknown control data", Frame.get + [(":protocol2", "x")]),
      ("with an empty path", Frame.get.filter { $0.0 != ":path" } + [(":path", "")]),
      ("with a path that is no path", Frame.get.filter { $0.0 != ":path" } + [(":path", "x")]),
      ("with CONNECT and a path", [(":method", "CONNECT"), (":authority", "a:443"), (":path", "/")]),
      ("with CONNECT and a scheme", [(":method", "CONNECT"), (":authority", "a:443"), (":scheme", "https")]),
      ("with CONNECT and no authority", [(":method", "CONNECT")]),
      ("with an asterisk for a path, and GET", Frame.get.filter { $0.0 != ":path" } + [(":path", "*")]),
      ("with a method that is no token", Frame.get.filter { $0.0 != ":method" } + [(":method", "G T")]),
      ("with two Hosts", Frame.get + [("host", "a.example"), ("host", "a.example")]),
      ("with te: gzip", Frame.get + [("te", "gzip")]),
      ("with content-length: x", Frame.get + [("content-length", "x")]),
      ("with content-length: -1", Frame.get + [("content-length", "-1")]),
      ("with content-length beyond 63 bits", Frame.get + [("content-length", "9223372036854775808")]),
      ("with two content-lengths", Frame.get + [("content-length", "0"), ("content-length", "0")]),
      ("with content-length: 1 and no content", Frame.get + [("content-length", "1")]),
    ]

  private static let values = ["a\nb", "a\rb", "a\0b", "\u{1}", "\u{7f}", " a", "a ", "\ta", "a\t"]

  private static let names = [
    "X-A", "x a", "x\u{e9}", "x:a", "", "x\n", "x(", "connection", "keep-alive", "proxy-connection",
    "transfer-encoding", "upgrade",
  ]

  @Test("a value that RFC 9110 §5.5 allows arrives unchanged", arguments: ["", "a\tb", "a b", "\u{e9}\u{ff}", "~!"])
  func legalValue(_ value: String) throws {
    let server = try End(.server)
    try server.receive(Frame.preface + Frame.headers(Frame.get + [("x-a", value)]).bytes)
    guard case .request(1, let head) = server.recorder.story.first else {
      Issue.record("\(server.recorder.story)")
      return
    }
    let bytes = Array(head.fields.bytes[head.fields.lines[0].value])
    #expect(bytes == value.unicodeScalars.map { UInt8($0.value) })
  }

  @Test("TE with trailers only, and CONNECT with an authority, are well-formed")
  func wellFormed() throws {
    let server = try End(.server)
    let connect = [(":method", "CONNECT"), (":authority", "a:443")]
    try server.receive(
      Frame.preface + Frame.headers(Frame.get + [("te", "trailers")]).bytes + Frame.headers(connect, stream: 3).bytes)
    #expect(server.recorder.requests == [1, 3])
  }

  @Test("Host replaces a missing authority, and an equal Host is dropped")
  func host() throws {
    let server = try End(.server)
    let get = Frame.get.filter { $0.0 != ":authority" }
    try server.receive(
      Frame.preface + Frame.headers(get + [("host", "B.example")]).bytes
        + Frame.headers(Frame.get + [("host", "A.example")], stream: 3).bytes)
    let heads = server.recorder.events.compactMap { if case .request(_, let head) = $0 { head } else { nil } }
    #expect(heads.map(\.authority) == ["B.example", "a.example"])
    #expect(heads.allSatisfy { $0.fields.isEmpty })
  }

  @Test("content whose length differs from Content-Length is refused", arguments: [0, 4, 6])
  func contentLength(_ count: Int) throws {
    let server = try End(.server)
    let head = Frame.headers(Frame.get + [("content-length", "5")], flags: Frame.endHeaders)
    try server.receive(
      Frame.preface + head.bytes + Frame(.data, flags: Frame.endStream, stream: 1, content(count)).bytes)
    _ = server.output()
    #expect(!server.recorder.events.contains(.end(1)))
    #expect(server.recorder.cause(of: 1) == .malformed)
  }

  @Test("a malformed response closes its stream as malformed", arguments: responses)
  func response(_ label: String, _ frames: [Frame]) throws {
    let client = try End(.client)
    let stream = try client.session.submitRequest(.get())
    _ = client.output()
    try client.receive(Frame(.settings).bytes + frames.flatMap(\.bytes))
    #expect(client.output().contains(Frame(.resetStream, stream: 1, [0, 0, 0, 1]).bytes))
    #expect(client.recorder.cause(of: stream) == .malformed)
    #expect(!client.recorder.events.contains(.end(stream)))
    #expect(client.session.failure == nil)
  }

  static let responses: [(String, [Frame])] = [
    ("no status", [.headers([("a", "b")])]),
    ("status 20", [.headers([(":status", "20")])]),
    ("status 2000", [.headers([(":status", "2000")])]),
    ("status 101", [.headers([(":status", "101")])]),
    ("status abc", [.headers([(":status", "abc")])]),
    ("a path", [.headers([(":status", "200"), (":path", "/")])]),
    ("a value with LF", [.headers([(":status", "200"), ("a", "b\nc")])]),
    ("an informational response that ends", [.headers([(":status", "103")])]),
    (
      "content shorter than content-length",
      [
        .headers([(":status", "200"), ("content-length", "3")], flags: Frame.endHeaders),
        Frame(.data, flags: Frame.endStream, stream: 1, [1, 2]),
      ]
    ),
    (
      "content longer than content-length",
      [
        .headers([(":status", "200"), ("content-length", "3")], flags: Frame.endHeaders),
        Frame(.data, flags: Frame.endStream, stream: 1, [1, 2, 3, 4]),
      ]
    ),
    (
      "content of a 204",
      [.headers([(":status", "204")], flags: Frame.endHeaders), Frame(.data, flags: 1, stream: 1, [1])]
    ),
    (
      "trailers that do not end",
      [.headers([(":status", "200")], flags: Frame.endHeaders), .headers([("a", "b")], flags: Frame.endHeaders)]
    ),
  ]

  @Test("informational responses and trailers are dropped")
  func informational() throws {
    let client = try End(.client)
    let stream = try client.session.submitRequest(.get())
    _ = client.output()
    let frames: [Frame] = [
      Frame(.settings), .headers([(":status", "100")], flags: Frame.endHeaders),
      .headers([(":status", "103"), ("link", "x")], flags: Frame.endHeaders),
      .headers([(":status", "200"), ("content-length", "2")], flags: Frame.endHeaders),
      Frame(.data, stream: 1, [1, 2]), .headers([("grpc-status", "0")]),
    ]
    try client.receive(frames.flatMap(\.bytes))
    guard case .response(stream, let head) = client.recorder.story.first else {
      Issue.record("\(client.recorder.story)")
      return
    }
    #expect(head.status == 200 && head.contentLength == 2 && head.fields == [.contentLength: "2"])
    #expect(
      client.recorder.story.dropFirst() == [
        .content(stream, [1, 2]), .end(stream), .closed(stream, .finished, .noError),
      ])
  }

  @Test("a response to HEAD has a length but no content")
  func head() throws {
    let client = try End(.client)
    let stream = try client.session.submitRequest(
      HTTP2RequestHead(method: "HEAD", scheme: "https", authority: "a", path: "/"))
    _ = client.output()
    try client.receive(Frame(.settings).bytes + Frame.headers([(":status", "200"), ("content-length", "9")]).bytes)
    #expect(client.recorder.cause(of: stream) == .finished)
  }

  @Test("a connection error ends the session with the code of the error", arguments: violations)
  func connection(_ label: String, _ frames: [Frame], code: HTTP2ErrorCode) throws {
    let server = try End(.server)
    // Throws the failure, which is checked below.
    try? server.receive(Frame.preface + frames.flatMap(\.bytes))
    _ = server.output()
    #expect(server.session.isOver)
    let failure = try #require(server.session.failure)
    guard case .connectionError(code, _) = failure else {
      Issue.record("\(failure)")
      return
    }
    #expect(throws: failure) { try server.receive([]) }
  }

  static let violations: [(String, [Frame], HTTP2ErrorCode)] = [
    ("DATA on an idle stream", [Frame(.data, stream: 1, [1])], .protocolError),
    ("an even stream", [.headers(Frame.get, stream: 2)], .protocolError),
    ("stream 0", [.headers(Frame.get, stream: 0)], .protocolError),
    ("SETTINGS of 5 bytes", [Frame(.settings, [0, 0, 0, 0, 0])], .frameSizeError),
    ("PING of 7 bytes", [Frame(.ping, [0, 0, 0, 0, 0, 0, 0])], .frameSizeError),
    ("a frame of 16 385 bytes", [Frame(.unknown, content(16_385))], .frameSizeError),
    ("fields that are no HPACK", [Frame(.headers, flags: 5, stream: 1, [0xff])], .compressionError),
    ("a window beyond 31 bits", [Frame(.windowUpdate, [0x7f, 0xff, 0xff, 0xff])], .flowControlError),
    ("PUSH_PROMISE from a client", [Frame(.pushPromise, flags: 4, stream: 1, [0, 0, 0, 2])], .protocolError),
    (
      "another frame amid a header section",
      [.headers(Frame.get, flags: Frame.endStream), Frame(.ping, content(8))], .protocolError
    ),
  ]

  @Test("a peer with another protocol gets its own error")
  func otherProtocol() throws {
    let server = try End(.server)
    #expect(throws: HTTP2Error.notHTTP2) { try server.receive(Array("GET / HTTP/1.1\r\n\r\n".utf8)) }
    #expect(server.session.isOver)
  }

  @Test("a promise that the client's settings forbid is cancelled, and the request continues")
  func promise() throws {
    let client = try End(.client)
    let stream = try client.session.submitRequest(.get())
    _ = client.output()
    let promise = [0, 0, 0, 2] + Frame.literals(Frame.get)
    try client.receive(Frame(.settings).bytes + Frame(.pushPromise, flags: 4, stream: 1, promise).bytes)
    try client.receive(Frame.headers([(":status", "200")]).bytes)
    #expect(client.output().contains(Frame(.resetStream, stream: 2, [0, 0, 0, 8]).bytes), "CANCEL")
    #expect(client.recorder.cause(of: stream) == .finished)
  }
}
