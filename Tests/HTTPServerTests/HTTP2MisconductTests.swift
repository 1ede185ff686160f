import EventLoop
import HTTPMessages
import TestSupport
import Testing

@testable import HTTPServer

/// Clients of HTTP/2 that are slow or hostile: what the server ends, and what it counts.
@Suite("Misconduct of HTTP/2 clients")
struct HTTP2MisconductTests {
  /// Short times, so that the tests wait for events only briefly.
  private static var limits: ServerLimits {
    var limits = ServerLimits()
    (limits.headerSection, limits.bodyProgress) = (.milliseconds(200), .milliseconds(200))
    // The idle time is longer than a test needs between two steps.
    (limits.writeProgress, limits.idle) = (.milliseconds(300), .seconds(2))
    return limits
  }

  private static func server(_ kind: IOLoop.PollerKind, _ limits: ServerLimits = limits) throws -> TestServer {
    try TestServer(Variant(poller: kind, isTLS: false), limits: limits, speaksHTTP2: true)
  }

  /// Sends bytes after the preface, and returns all frames until the server closes the connection.
  private static func frames(_ server: TestServer, _ bytes: [UInt8]) throws -> [WireFrame] {
    let client = try RawClient(port: server.port)
    try client.send(WireFrame.preface + bytes)
    return WireFrame.all(in: try client.restUndecrypted())
  }

  @Test("an idle connection ends with GOAWAY", .realSeconds, arguments: IOLoop.PollerKind.allCases)
  func idle(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let frames = try Self.frames(server, WireFrame.get("/hello", stream: 1))
    #expect(frames.contains { $0.type == WireFrame.data && $0.content == Array("hello".utf8) })
    #expect(frames.last?.type == WireFrame.goAway)
    #expect(server.recorder.http2Misconduct.isEmpty)
  }

  @Test(
    "a header block that is incomplete when the idle time ends keeps no loop", .realSeconds,
    arguments: IOLoop.PollerKind.allCases)
  func frameAtIdleEnd(_ kind: IOLoop.PollerKind) throws {
    var limits = Self.limits
    (limits.idle, limits.headerSection) = (.milliseconds(200), .seconds(60))
    let server = try Self.server(kind, limits)
    let client = try RawClient(port: server.port)
    let block = WireFrame.block("/hello")
    let partial = WireFrame(type: WireFrame.headers, flags: 0x1, stream: 1, content: block).bytes()
    try client.send(WireFrame.preface + partial)
    // The first idle time ends with a GOAWAY, the second one with the connection.
    #expect(WireFrame.all(in: try client.restUndecrypted()).last?.type == WireFrame.goAway)
    let other = try Self.frames(server, WireFrame.get("/hello", stream: 1))
    #expect(other.contains { $0.type == WireFrame.data && $0.content == Array("hello".utf8) })
  }

  @Test(
    "an incomplete frame or header block ends the connection, and no stream survives it",
    arguments: IOLoop.PollerKind.allCases, [0, 1])
  func slowFrame(_ kind: IOLoop.PollerKind, _ form: Int) throws {
    let server = try Self.server(kind)
    let block = WireFrame.block("/hello")
    let partial = [
      WireFrame(type: WireFrame.headers, flags: 0x5, stream: 3, content: block).bytes(length: block.count + 1),
      WireFrame(type: WireFrame.headers, flags: 0x1, stream: 3, content: block).bytes(),
    ]
    let frames = try Self.frames(server, WireFrame.post("/echo", stream: 1) + partial[form])
    #expect(frames.last?.type == WireFrame.goAway)
    #expect(server.recorder.http2Misconduct.contains(.slowFrame))
    server.waitForConnections(0)
  }

  @Test(
    "content that stops is refused with 408, and other streams of the connection go on", .realSeconds,
    arguments: IOLoop.PollerKind.allCases)
  func slowContent(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let content = WireFrame(type: WireFrame.data, stream: 1, content: [1, 2]).bytes()
    let client = try RawClient(port: server.port)
    try client.send(WireFrame.preface + WireFrame.post("/echo", stream: 1) + content)
    wait(for: "the content is refused") { server.recorder.statuses == [408] }
    #expect(server.recorder.http2Misconduct == [.slowContent])
    try client.send(WireFrame.get("/hello", stream: 3))
    let frames = WireFrame.all(in: try client.restUndecrypted())
    #expect(frames.contains { $0.stream == 3 && $0.content == Array("hello".utf8) })
    // NO_ERROR: the client need not send the rest (RFC 9113 §8.1).
    #expect(frames.filter { $0.type == WireFrame.reset }.map { [Int($0.stream), $0.code] } == [[1, 0]])
    #expect(server.recorder.statuses == [408, 200])
  }

  @Test("a stream without a window is reset, and others go on", .realSeconds, arguments: IOLoop.PollerKind.allCases)
  func zeroWindow(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let client = try RawClient(port: server.port)
    let noWindow = WireFrame(type: 4, content: [0, 4, 0, 0, 0, 0]).bytes()
    try client.send(WireFrame.preface + noWindow + WireFrame.get("/large", stream: 1))
    wait(for: "the stream is reset") { server.recorder.http2Misconduct == [.slowReader] }
    let window = WireFrame(type: 4, content: [0, 4, 0, 0, 255, 255]).bytes()
    try client.send(window + WireFrame.get("/hello", stream: 3))
    let frames = WireFrame.all(in: try client.restUndecrypted())
    #expect(frames.filter { $0.type == WireFrame.reset }.map { [Int($0.stream), $0.code] } == [[1, 8]])
    #expect(frames.contains { $0.stream == 3 && $0.content == Array("hello".utf8) })
  }

  @Test("a client that opens windows and reads nothing loses its connection", arguments: IOLoop.PollerKind.allCases)
  func noReading(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let client = try RawClient(port: server.port, receiveBuffer: 4096)
    let window = WireFrame(type: 4, content: [0, 4, 0x7f, 0xff, 0xff, 0xff]).bytes()
    let credit = WireFrame(type: 8, content: [0x7f, 0, 0, 0]).bytes()
    try client.send(WireFrame.preface + window + credit + WireFrame.get("/large", stream: 1))
    server.waitForConnections(0)
    // The kernel may be first, because it has the same limit.
    #expect(server.recorder.http2Misconduct.allSatisfy { $0 == .slowReader })
  }

  @Test("floods are counted by what they are, and end only their own connection", arguments: Self.floods)
  func flood(_ label: String, _ bytes: [UInt8], _ misconduct: HTTP2Misconduct) throws {
    let server = try Self.server(.epoll, ServerLimits())
    let other = try RawClient(port: server.port)
    try other.send(WireFrame.preface + WireFrame.get("/hello", stream: 1))
    wait(for: "another client is served") { server.recorder.statuses == [200] }
    let client = try RawClient(port: server.port)
    try? client.send(WireFrame.preface + bytes)
    wait(for: "the flood ends") { server.recorder.http2Misconduct.contains(misconduct) }
    try other.send(WireFrame.get("/hello", stream: 3))
    wait(for: "the other client is still served") { server.recorder.statuses.filter { $0 == 200 }.count >= 2 }
  }

  static let floods: [(String, [UInt8], HTTP2Misconduct)] = [
    ("SETTINGS", repeated(WireFrame(type: 4)), .idleFrames),
    ("PING", repeated(WireFrame(type: 6, content: Array(repeating: 0, count: 8))), .idleFrames),
    (
      "empty DATA", WireFrame.post("/echo", stream: 1) + repeated(WireFrame(type: WireFrame.data, stream: 1)),
      .idleFrames
    ),
    ("rapid reset", resets { WireFrame(type: WireFrame.reset, stream: $0, content: [0, 0, 0, 8]) }, .resets),
    // A window beyond 2³¹−1 is an error of the stream, which the server has to reset (RFC 9113 §6.9.1, CVE-2025-8671).
    ("made-you-reset", resets { WireFrame(type: 8, stream: $0, content: [0x7f, 0xff, 0xff, 0xff]) }, .resets),
    ("a window update of 0", resets { WireFrame(type: 8, stream: $0, content: [0, 0, 0, 0]) }, .protocolError),
    (
      "CONTINUATION",
      WireFrame(type: WireFrame.headers, flags: 0x1, stream: 1, content: WireFrame.block("/hello")).bytes()
        + repeated(WireFrame(type: 9, stream: 1)),
      .headerSection
    ),
    // An entry of 4,000 bytes, and then a byte for each use of it (RFC 7541 §6.1).
    (
      "HPACK",
      WireFrame(
        type: WireFrame.headers, flags: 0x5, stream: 1,
        content: WireFrame.block("/hello") + [0x40, 1, 0x78, 0x7f, 0xa1, 0x1e] + Array(repeating: 0x61, count: 4000)
          + Array(repeating: 0xbe, count: 8000)
      ).bytes(),
      .headerSection
    ),
    ("invalid", WireFrame(type: WireFrame.data, stream: 0, content: [1]).bytes(), .protocolError),
  ]

  @Test("a header section beyond the limit is refused and counts once", arguments: IOLoop.PollerKind.allCases)
  func oversized(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    // Three fields `x` of 15,000 bytes (RFC 7541 §6.2.2), each in a frame of its own.
    let field = [0, 1, 0x78, 0x7f, 0x99, 0x74] + Array(repeating: UInt8(0x61), count: 15_000)
    let head = WireFrame(type: WireFrame.headers, flags: 0x1, stream: 1, content: WireFrame.block("/hello") + field)
    let second = WireFrame(type: 9, stream: 1, content: field)
    let third = WireFrame(type: 9, flags: 0x4, stream: 1, content: field)
    _ = try Self.frames(server, head.bytes() + second.bytes() + third.bytes())
    #expect(server.recorder.statuses == [431])
    #expect(server.recorder.http2Misconduct == [.headerSection])
  }

  private static func repeated(_ frame: WireFrame) -> [UInt8] {
    Array(repeating: frame.bytes(), count: 3000).flatMap { $0 }
  }

  /// Streams that the client opens, and then ends by a frame: as many as take several reads, with a hundred at once.
  private static func resets(_ end: (UInt8) -> WireFrame) -> [UInt8] {
    (0..<6000).flatMap { index -> [UInt8] in
      let id = 2 * index + 1
      var bytes = WireFrame.post("/echo", stream: 0) + end(0).bytes()
      let second = bytes.count - end(0).bytes().count
      for start in [0, second] { (bytes[start + 7], bytes[start + 8]) = (UInt8(id >> 8), UInt8(id & 0xff)) }
      return bytes
    }
  }
}
