import Bytes
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPClient

/// Each way in which an HTTP/2 connection to the upstream ends while requests are in flight.
@Suite("An HTTP/2 connection that ends")
struct HTTP2EndTests {
  /// What a server does after it has received three requests, and the error of each request.
  struct Row: CustomTestStringConvertible, Sendable {
    let label: String
    let cause: UpstreamError.Cause
    let progress: UpstreamError.Progress
    /// Text that the error contains.
    let words: String
    let script: @Sendable (PeerConnection) -> Void
    /// Whether the connection ends because the peer is silent.
    var isSilent: Bool { words == "stopped responding" }

    var testDescription: String { label }

    init(
      _ label: String, _ cause: UpstreamError.Cause, _ progress: UpstreamError.Progress, _ words: String,
      script: @escaping @Sendable (PeerConnection) -> Void
    ) {
      (self.label, self.cause, self.progress, self.words, self.script) = (label, cause, progress, words, script)
    }

    /// Bytes that violate the protocol, after which the server waits.
    static func violation(_ label: String, _ code: String, _ bytes: [UInt8]) -> Row {
      Row(label, .protocolError, .unanswered, code) { $0.send(bytes) }
    }
  }

  @Test("fails each of its requests once, with the right cause and progress", arguments: rows)
  func failures(_ row: Row) throws {
    let peer = try ScriptedPeer()
    let client = try TestClient(port: peer.port) { configuration in
      configuration.http2 = .priorKnowledge
      configuration.limits.pingWhenBusy = row.isSilent ? .milliseconds(10) : .seconds(60)
      configuration.limits.pingAck = row.isSilent ? .milliseconds(10) : .seconds(60)
    }
    let calls = (0..<3).map { _ in client.send() }
    let connection = try peer.accept()
    #expect(try connection.http2Requests(3) == [1, 3, 5])
    row.script(connection)
    for call in calls {
      let error = try #require(try call.failure())
      #expect(error.cause == row.cause, "\(error)")
      #expect(error.progress == row.progress, "\(error)")
      #expect(error.description.contains(row.words), "\(error)")
      #expect(error.description.contains("127.0.0.1:\(peer.port)"))
    }
    try client.wait { $0.connections.isEmpty && $0.draining.isEmpty && $0.counters.requestsOpen == 0 }
  }

  @Test("fails content that has begun as broken, with the reason", arguments: broken)
  func brokenContent(_ row: Row) throws {
    let peer = try ScriptedPeer()
    let client = try TestClient(port: peer.port) { $0.http2 = .priorKnowledge }
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.http2Requests(1)
    connection.send(H2Frame.settings + H2Frame.ok(1))
    _ = try call.response()
    row.script(connection)
    try client.wait { $0.counters.requestsOpen == 0 }
    guard case .broken(let words) = try call.received().error else {
      Issue.record("It did not break off.")
      return
    }
    #expect(words.contains(row.words), "\(words)")
  }

  @Test("because the client was closed fails its requests as cancelled")
  func closed() throws {
    let peer = try ScriptedPeer()
    let client = try TestClient(port: peer.port) { $0.http2 = .priorKnowledge }
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.http2Requests(1)
    client.client.close()
    #expect(try call.failure()?.cause == .cancelled)
  }

  @Test("because TLS failed fails its requests with a TLS error", .otherPrograms)
  func brokenTLS() throws {
    let upstream = try H2Upstream(isTLS: true)
    let proxy = try ScriptedPeer()
    let way = try UpstreamProxy("http://127.0.0.1:\(proxy.port)")
    let client = try upstream.client { $0.proxy = way }
    let calls = (0..<3).map { _ in client.send(.get, "/hold") }
    let connection = try proxy.accept()
    _ = try connection.request()
    try connection.tunnel(to: upstream.port)
    try client.wait { $0.counters.requestsOpen == 3 && $0.connections.contains { !$0.isSettling } }
    connection.send("this is no record of TLS")
    for call in calls {
      let error = try #require(try call.failure())
      #expect(error.cause == .tlsProtocolError, "\(error)")
      #expect(error.progress == .unanswered)
    }
  }

  // MARK: The rows

  static let rows: [Row] =
    violations + ends + (0...14).map(goAwayThenEnd) + (0...14).map(goAwayWithoutStreams) + (0...14).map(resets)

  /// Protocol violations by the server: the client ends the connection with a GOAWAY of its own.
  private static let violations: [Row] = [
    .violation("SETTINGS of a wrong length", "FRAME_SIZE_ERROR", H2Frame.bytes(.settings, [0, 3, 0, 0, 0])),
    .violation("SETTINGS with a forbidden value", "FLOW_CONTROL_ERROR", H2Frame.settings(4, 0x8000_0000)),
    .violation("SETTINGS on a stream", "PROTOCOL_ERROR", H2Frame.bytes(.settings, stream: 1)),
    .violation("no SETTINGS at the beginning", "PROTOCOL_ERROR", H2Frame.ok(1)),
    .violation("another protocol", "SETTINGS expected", Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)),
    .violation(
      "invalid HPACK", "COMPRESSION_ERROR",
      H2Frame.settings
        + H2Frame.bytes(.headers, flags: H2Frame.endHeaders, stream: 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])),
    .violation(
      "CONTINUATION without end", "CONTINUATION",
      H2Frame.settings + H2Frame.ok(1, flags: 0)
        + Array(repeating: H2Frame.bytes(.continuation, stream: 1), count: 2000).flatMap { $0 }),
    .violation(
      "CONTINUATION without a beginning", "PROTOCOL_ERROR",
      H2Frame.settings + H2Frame.bytes(.continuation, stream: 1)),
    .violation(
      "another frame within a header section", "PROTOCOL_ERROR",
      H2Frame.settings + H2Frame.ok(1, flags: 0) + H2Frame.bytes(.ping, Array(repeating: 0, count: 8))),
    .violation("DATA on no stream", "PROTOCOL_ERROR", H2Frame.settings + H2Frame.bytes(.data, [1])),
    .violation("a response on a stream that is idle", "PROTOCOL_ERROR", H2Frame.settings + H2Frame.ok(99)),
    .violation("RST_STREAM on a stream that is idle", "PROTOCOL_ERROR", H2Frame.settings + H2Frame.reset(99, 8)),
    .violation("PING of a wrong length", "FRAME_SIZE_ERROR", H2Frame.settings + H2Frame.bytes(.ping, [1])),
    .violation("GOAWAY of a wrong length", "FRAME_SIZE_ERROR", H2Frame.settings + H2Frame.bytes(.goAway, [1])),
    .violation(
      "a frame larger than allowed", "FRAME_SIZE_ERROR",
      H2Frame.settings + H2Frame.bytes(.data, stream: 1, Array(repeating: 0, count: 16_385))),
    .violation("an empty window update", "PROTOCOL_ERROR", H2Frame.settings + H2Frame.windowUpdate(0)),
    .violation(
      "a window beyond its bound", "FLOW_CONTROL_ERROR", H2Frame.settings + H2Frame.windowUpdate(0x7fff_ffff)),
    .violation(
      "a promise although push is off", "PROTOCOL_ERROR",
      H2Frame.settings + H2Frame.bytes(.settings, flags: H2Frame.ack)
        + H2Frame.bytes(.pushPromise, flags: H2Frame.endHeaders, stream: 1, H2Frame.number(2))),
    .violation(
      "a flood of frames without use", "frames without data",
      H2Frame.settings + Array(repeating: H2Frame.windowUpdate(1), count: 1200).flatMap { $0 }),
  ]

  /// Ends of the connection below HTTP/2.
  private static let ends: [Row] = [
    Row("the peer closes it", .connectionTerminated, .unanswered, "closed the connection") { connection in
      connection.send(H2Frame.settings)
      connection.end()
    },
    Row("the peer closes it within a frame", .connectionTerminated, .unanswered, "closed the connection") {
      connection in
      connection.send(H2Frame.settings + H2Frame.ok(1).dropLast(1))
      connection.end()
    },
    Row("the peer resets it", .connectionTerminated, .unanswered, "broke") { $0.reset() },
    Row("the peer breaks the protocol and closes it", .protocolError, .unanswered, "COMPRESSION_ERROR") {
      connection in
      connection.send(
        H2Frame.settings
          + H2Frame.bytes(.headers, flags: H2Frame.endHeaders, stream: 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]))
      connection.end()
    },
    Row("the peer is silent", .connectionTerminated, .unanswered, "stopped responding") { $0.send(H2Frame.settings) },
  ]

  /// The peer sends GOAWAY with the code, has accepted all requests, and closes without a response.
  private static func goAwayThenEnd(code: UInt32) -> Row {
    let cause: UpstreamError.Cause = code == 0 ? .connectionTerminated : .protocolError
    let words = code == 0 ? "closed the connection" : "x?y"
    return Row("GOAWAY with code \(code), then the end", cause, .unanswered, words) {
      $0.send(H2Frame.settings + H2Frame.goAway(code, last: 5, "x\ny"))
      $0.end()
    }
  }

  /// The peer sends GOAWAY with the code and has accepted none of the requests.
  private static func goAwayWithoutStreams(code: UInt32) -> Row {
    Row("GOAWAY with code \(code) and no stream", .connectionTerminated, .unprocessed, "did not process") {
      $0.send(H2Frame.settings + H2Frame.goAway(code, last: 0))
      $0.end()
    }
  }

  /// The peer resets each stream with the code; then the connection ends, so that each row ends alike.
  private static func resets(code: UInt32) -> Row {
    let isRefusal = code == 7
    return Row(
      "RST_STREAM with code \(code)", .connectionTerminated, isRefusal ? .unprocessed : .unanswered,
      isRefusal ? "did not process" : "reset the stream"
    ) { connection in
      connection.send(H2Frame.settings + [1, 3, 5].flatMap { H2Frame.reset($0, code) } + H2Frame.goAway(0, last: 5))
      connection.end()
    }
  }

  /// Ends in the middle of a response.
  static let broken: [Row] = [
    Row("DATA beyond the window", .protocolError, .answered, "FLOW_CONTROL_ERROR") { connection in
      for _ in 0..<5 { connection.send(H2Frame.bytes(.data, stream: 1, Array(repeating: 0, count: 16_384))) }
    },
    Row("a response on a stream that is idle", .protocolError, .answered, "PROTOCOL_ERROR") { $0.send(H2Frame.ok(99)) },
    Row("the peer closes the connection", .responseIncomplete, .answered, "closed the connection") { $0.end() },
    Row("the peer resets the stream", .responseIncomplete, .answered, "reset the stream") {
      $0.send(H2Frame.reset(1, 2))
    },
    Row("trailers that are none", .protocolError, .answered, "HTTP/2 protocol") {
      $0.send(H2Frame.bytes(.headers, flags: 5, stream: 1, [0x88]))
    },
  ]
}
