import HTTP2
import TestSupport
import Testing

/// What RFC 9113 §§3–7 requires of a server, clause by clause. `MalformedMessageTests` has §8.
@Suite("Conformance to RFC 9113")
struct ConformanceTests {
  /// What a server has to do about frames.
  enum Outcome: Equatable {
    /// A connection error: GOAWAY with this code (§5.4.1).
    case connection(UInt8)
    /// A stream error: RST_STREAM with this code on stream 1 (§5.4.2).
    case stream(UInt8)
    /// Either of both, as the clause allows.
    case either(UInt8)
    /// Nothing: the next request is served.
    case ignored
  }

  struct Case: CustomTestStringConvertible {
    let testDescription: String
    let frames: [Frame]
    let outcome: Outcome

    init(_ description: String, _ frames: [Frame], _ outcome: Outcome) {
      (testDescription, self.frames, self.outcome) = (description, frames, outcome)
    }
  }

  @Test("a server does what the clause requires", arguments: cases)
  func conforms(_ example: Case) throws {
    let server = try End(.server)
    try? server.receive(Frame.preface + example.frames.flatMap(\.bytes))
    let sent = Self.frames(in: server.output())
    let goAways = sent.filter { $0.type == Frame.Kind.goAway.rawValue }.map { $0.content[7] }
    let resets = sent.filter { $0.type == Frame.Kind.resetStream.rawValue && $0.stream == 1 }.map { $0.content[3] }
    switch example.outcome {
    case .connection(let code): #expect(goAways == [code])
    case .stream(let code): #expect(goAways == [] && resets == [code])
    case .either(let code): #expect(goAways == [code] || goAways == [] && resets == [code])
    case .ignored: #expect(goAways == [] && resets == [])
    }
    guard goAways.isEmpty else { return }
    try server.receive(Frame.headers(Frame.get, stream: 99).bytes)
    #expect(server.recorder.requests.last == 99, "the connection goes on")
  }

  @Test("PING gets the same eight bytes back, and its acknowledgement gets nothing (§6.7)")
  func ping() throws {
    let server = try End(.server)
    try server.receive(Frame.preface)
    _ = server.output()
    let payload = Array("12345678".utf8)
    try server.receive(Frame(.ping, payload).bytes)
    #expect(server.output() == Frame(.ping, flags: Frame.ack, payload).bytes)
    try server.receive(Frame(.ping, flags: Frame.ack, payload).bytes)
    #expect(server.output().isEmpty)
  }

  @Test("SETTINGS are acknowledged at once, and come first (§3.4, §6.5.3)")
  func settings() throws {
    let server = try End(.server)
    try server.receive(Frame.preface)
    let sent = Self.frames(in: server.output())
    #expect(sent.first?.type == Frame.Kind.settings.rawValue && sent.first?.flags == 0)
    #expect(sent.contains { $0.type == Frame.Kind.settings.rawValue && $0.flags == Frame.ack && $0.content.isEmpty })
  }

  @Test("the server's settings have no push, and no frame is longer than the client allows (§4.2, §6.5.2, §6.6)")
  func lengths() throws {
    let server = try End(.server)
    try server.receive(Frame.preface + Self.setting(4, 1 << 20).bytes + Frame.headers(Frame.get).bytes)
    try server.session.submitResponse(HTTP2ResponseHead(status: 200), on: 1, hasContent: true)
    server.session.send(content(60_000), on: 1, isLast: true)
    let sent = Self.frames(in: server.output())
    let settings = sent.first?.content ?? []
    let names = stride(from: 0, to: settings.count, by: 6).map { settings[$0 + 1] }
    #expect(!names.contains(2) && !names.isEmpty)
    #expect(sent.allSatisfy { $0.content.count <= 16_384 && $0.type != Frame.Kind.pushPromise.rawValue })
    #expect(sent.filter { $0.type == Frame.Kind.data.rawValue }.flatMap(\.content) == content(60_000))
  }

  @Test("a window that settings make negative allows nothing until it is positive again (§6.9.2)")
  func negativeWindow() throws {
    let server = try End(.server)
    func sent() -> Int {
      Self.frames(in: server.output()).filter { $0.type == Frame.Kind.data.rawValue }.map(\.content.count).reduce(0, +)
    }
    try server.receive(Frame.preface + Self.setting(4, 1000).bytes + Frame.headers(Frame.get).bytes)
    try server.session.submitResponse(HTTP2ResponseHead(status: 200), on: 1, hasContent: true)
    server.session.send(content(2000), on: 1, isLast: true)
    #expect(sent() == 1000)
    try server.receive(Self.setting(4, 400).bytes)
    try server.receive(Frame(.windowUpdate, stream: 1, Frame.number(600)).bytes)
    #expect(sent() == 0, "the window is 0")
    try server.receive(Frame(.windowUpdate, stream: 1, Frame.number(7)).bytes)
    #expect(sent() == 7)
    try server.receive(Self.setting(4, 100_000).bytes)
    #expect(sent() == 993)
  }

  @Test("streams that are open go on after a GOAWAY of the client, and the session then ends (§6.8)")
  func goAway() throws {
    let server = try End(.server)
    try server.receive(Frame.preface + Frame.headers(Frame.get).bytes + Frame(.goAway, zeros(8)).bytes)
    try server.session.submitResponse(HTTP2ResponseHead(status: 204), on: 1)
    #expect(Self.frames(in: server.output()).contains { $0.type == Frame.Kind.headers.rawValue && $0.stream == 1 })
    #expect(server.recorder.cause(of: 1) == .finished)
  }

  @Test("a client without the preface, or whose first frame is no SETTINGS, is refused (§3.4)")
  func preface() throws {
    let other = try End(.server)
    #expect(throws: HTTP2Error.notHTTP2) { try other.receive(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)) }
    let early = try End(.server)
    try? early.receive(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Frame(.ping, zeros(8)).bytes)
    #expect(Self.frames(in: early.output()).contains { $0.type == Frame.Kind.goAway.rawValue && $0.content[7] == 1 })
  }

  private struct SentFrame {
    let type: UInt8
    let flags: UInt8
    let stream: UInt8
    let content: [UInt8]
  }

  private static func frames(in bytes: [UInt8]) -> [SentFrame] {
    var frames: [SentFrame] = []
    var rest = bytes[...]
    while rest.count >= 9 {
      let header = Array(rest.prefix(9))
      let length = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
      let content = Array(rest.dropFirst(9).prefix(length))
      frames.append(SentFrame(type: header[3], flags: header[4], stream: header[8], content: content))
      rest = rest.dropFirst(9 + length)
    }
    return frames
  }

  // MARK: The cases, in the order of the RFC

  private static let protocolError: UInt8 = 1
  private static let flowControlError: UInt8 = 3
  private static let streamClosed: UInt8 = 5
  private static let frameSizeError: UInt8 = 6
  private static let compressionError: UInt8 = 9

  /// Stream 1 is open, and the client has more to send.
  private static let open = Frame.headers(Frame.get, flags: Frame.endHeaders)
  /// Stream 1 is half-closed (remote): the client's request is complete.
  private static let halfClosed = Frame.headers(Frame.get)
  private static let block = Frame.literals(Frame.get)

  private static func setting(_ id: UInt8, _ value: UInt32) -> Frame {
    Frame(.settings, [0, id] + Frame.number(value))
  }

  static let cases: [Case] = framing + streams + contents + settingsCases + windows + continuations

  private static let framing = [
    Case(
      "§4.1 frames of unknown types are ignored", [Frame(.unknown, [1, 2, 3]), Frame(.unknown, stream: 1)], .ignored),
    Case("§4.1 undefined flags are ignored", [Frame(.ping, flags: 0xfe, zeros(8))], .ignored),
    Case(
      "§4.2 a frame beyond SETTINGS_MAX_FRAME_SIZE", [open, Frame(.data, stream: 1, zeros(16_385))],
      .either(frameSizeError)),
    Case(
      "§4.3 a header block that HPACK cannot decode", [Frame(.headers, flags: 5, stream: 1, [0x80])],
      .connection(compressionError)),
    Case(
      "§4.3 another frame within a header block",
      [Frame(.headers, flags: 1, stream: 1, block), Frame(.ping, zeros(8))], .connection(protocolError)),
    Case(
      "§4.3 a frame of another stream within a header block",
      [Frame(.headers, flags: 1, stream: 1, block), Frame(.data, stream: 3, [1])], .connection(protocolError)),
    Case(
      "§5.5 a frame of an unknown type within a header block",
      [Frame(.headers, flags: 1, stream: 1, block), Frame(.unknown)], .connection(protocolError)),
  ]

  private static let streams = [
    // The clause requires an error. The library remembers no closed streams, so it ignores the frames as late ones.
    Case(
      "§5.1 DATA and HEADERS behind RST_STREAM",
      [open, Frame(.resetStream, stream: 1, [0, 0, 0, 8]), Frame(.data, stream: 1, [1]), halfClosed], .ignored),
    Case("§5.1 DATA on an idle stream", [Frame(.data, stream: 1, [1])], .connection(protocolError)),
    Case("§5.1 RST_STREAM on an idle stream", [Frame(.resetStream, stream: 1, zeros(4))], .connection(protocolError)),
    Case(
      "§5.1 WINDOW_UPDATE on an idle stream", [Frame(.windowUpdate, stream: 1, [0, 0, 0, 1])],
      .connection(protocolError)),
    Case("§5.1 CONTINUATION on an idle stream", [Frame(.continuation, stream: 1, block)], .connection(protocolError)),
    Case("§5.1 DATA behind the end", [halfClosed, Frame(.data, stream: 1, [1])], .either(streamClosed)),
    Case("§5.1 HEADERS behind the end", [halfClosed, halfClosed], .either(streamClosed)),
    Case(
      "§5.1 WINDOW_UPDATE, PRIORITY and RST_STREAM behind the end",
      [
        halfClosed, Frame(.windowUpdate, stream: 1, [0, 0, 0, 1]), Frame(.priority, stream: 1, [0, 0, 0, 0, 1]),
        Frame(.resetStream, stream: 1, [0, 0, 0, 8]), Frame(.windowUpdate, stream: 1, [0, 0, 0, 1]),
      ], .ignored),
    Case("§5.1.1 an even stream", [Frame.headers(Frame.get, stream: 2)], .connection(protocolError)),
    // The clause requires an error. The library remembers no closed streams, so it ignores the frame as a late one.
    Case(
      "§5.1.1 a stream below an earlier one",
      [Frame.headers(Frame.get, stream: 5), Frame.headers(Frame.get, stream: 3)], .ignored),
  ]

  private static let contents = [
    Case("§6.1 DATA on stream 0", [Frame(.data, [1])], .connection(protocolError)),
    Case(
      "§6.1 padding as long as the frame", [open, Frame(.data, flags: 8, stream: 1, [2, 0])], .connection(protocolError)
    ),
    Case("§6.2 HEADERS on stream 0", [Frame(.headers, flags: 5, block)], .connection(protocolError)),
    Case(
      "§6.2 padding longer than the header block", [Frame(.headers, flags: 0xd, stream: 1, [200] + block)],
      .connection(protocolError)),
    // The clause requires an error. The library ignores all priorities, as the settings say, and this one does no harm.
    Case("§6.3 PRIORITY on stream 0", [Frame(.priority, zeros(5))], .ignored),
    Case("§6.3 PRIORITY of another length", [open, Frame(.priority, stream: 1, zeros(4))], .either(frameSizeError)),
    Case("§6.4 RST_STREAM on stream 0", [Frame(.resetStream, zeros(4))], .connection(protocolError)),
    Case(
      "§6.4 RST_STREAM of another length", [open, Frame(.resetStream, stream: 1, zeros(3))], .connection(frameSizeError)
    ),
    Case(
      "§6.6 PUSH_PROMISE from a client", [open, Frame(.pushPromise, flags: 4, stream: 1, zeros(3) + [2] + block)],
      .connection(protocolError)),
    Case("§6.7 PING on a stream", [open, Frame(.ping, stream: 1, zeros(8))], .connection(protocolError)),
    Case("§6.7 PING of another length", [Frame(.ping, zeros(7))], .connection(frameSizeError)),
    Case("§7 unknown error codes", [open, Frame(.resetStream, stream: 1, [0xff, 0, 0, 0xff])], .ignored),
    Case("§6.8 GOAWAY on a stream", [open, Frame(.goAway, stream: 1, zeros(8))], .connection(protocolError)),
    Case("§8.1 trailers", [open, Frame.headers([("x", "y")])], .ignored),
    Case("§8.1 trailers with control data", [open, Frame.headers([(":path", "/")])], .either(protocolError)),
    Case(
      "§8.1 trailers that do not end the stream", [open, Frame.headers([("x", "y")], flags: 4)], .either(protocolError)),
  ]

  private static let settingsCases = [
    Case("§6.5 SETTINGS on a stream", [open, Frame(.settings, stream: 1)], .connection(protocolError)),
    Case("§6.5 an acknowledgement with settings", [Frame(.settings, flags: 1, zeros(6))], .connection(frameSizeError)),
    Case("§6.5 SETTINGS of another length", [Frame(.settings, zeros(5))], .connection(frameSizeError)),
    Case("§6.5.2 ENABLE_PUSH of 2", [setting(2, 2)], .connection(protocolError)),
    Case("§6.5.2 INITIAL_WINDOW_SIZE of 2³¹", [setting(4, 1 << 31)], .connection(flowControlError)),
    Case("§6.5.2 MAX_FRAME_SIZE of 16,383", [setting(5, 16_383)], .connection(protocolError)),
    Case("§6.5.2 MAX_FRAME_SIZE of 2²⁴", [setting(5, 1 << 24)], .connection(protocolError)),
    Case("§6.5.2 unknown settings are ignored", [setting(0x77, 1)], .ignored),
  ]

  /// A request on `stream` with so many bytes of content, so far.
  private static func request(on stream: Int32, contentBytes count: Int) -> [Frame] {
    let parts = stride(from: 0, to: count, by: 16_384).map { min(16_384, count - $0) }
    return [Frame.headers(Frame.get, stream: stream, flags: Frame.endHeaders)]
      + parts.map { Frame(.data, stream: stream, zeros($0)) }
  }

  private static let windows: [Case] = [
    Case(
      "§6.9.1 more content than the window of the stream", request(on: 1, contentBytes: 65_536),
      .either(flowControlError)),
    Case("§6.9 WINDOW_UPDATE of another length", [Frame(.windowUpdate, zeros(3))], .connection(frameSizeError)),
    Case("§6.9 a window update of 0 for the connection", [Frame(.windowUpdate, zeros(4))], .connection(protocolError)),
    Case(
      "§6.9 a window update of 0 for a stream", [open, Frame(.windowUpdate, stream: 1, zeros(4))],
      .either(protocolError)),
    Case(
      "§6.9.1 the connection's window beyond 2³¹−1", [Frame(.windowUpdate, [0x7f, 0xff, 0xff, 0xff])],
      .connection(flowControlError)),
    Case(
      "§6.9.1 a stream's window beyond 2³¹−1", [open, Frame(.windowUpdate, stream: 1, [0x7f, 0xff, 0xff, 0xff])],
      .stream(flowControlError)),
    Case(
      "§6.9.2 INITIAL_WINDOW_SIZE that takes a stream's window beyond 2³¹−1",
      [open, Frame(.windowUpdate, stream: 1, [0x7f, 0xff, 0, 0]), setting(4, 0x7fff_ffff)],
      .either(flowControlError)),
  ]

  private static let continuations = [
    Case("§6.10 CONTINUATION on stream 0", [Frame(.continuation, block)], .connection(protocolError)),
    Case(
      "§6.10 CONTINUATION of another stream",
      [Frame(.headers, flags: 1, stream: 1, block), Frame(.continuation, flags: 4, stream: 3, block)],
      .connection(protocolError)),
    Case(
      "§6.10 CONTINUATION behind a complete header block", [open, Frame(.continuation, flags: 4, stream: 1, block)],
      .connection(protocolError)),
  ]
}

private func zeros(_ count: Int) -> [UInt8] { Array(repeating: 0, count: count) }
