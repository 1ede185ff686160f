import HTTP2
import HTTPTypes
import Testing

@Suite("The end of a stream")
struct EndOfStreamTests {
  @Test("after GOAWAY, streams up to the last stream ID continue and later streams are unprocessed")
  func goAway() throws {
    let client = try End(.client)
    let streams = try (0..<5).map { _ in try client.session.submitRequest(.get()) }
    _ = client.output()
    try client.receive(Frame(.settings).bytes)
    let payload = Frame.number(5) + Frame.number(0) + Array("so\nlong".utf8)
    try client.receive(Frame(.goAway, payload).bytes)
    guard case .goAway(let goAway) = client.recorder.story.first else {
      Issue.record("\(client.recorder.story)")
      return
    }
    #expect(goAway.code == .noError && goAway.lastStreamID == 5 && goAway.debugText == "so?long")
    #expect(streams.map { client.recorder.cause(of: $0) } == [nil, nil, nil, .unprocessed, .unprocessed])
    #expect(!client.session.canOpenStream)
    #expect(throws: HTTP2Error.noStreamAvailable) { try client.session.submitRequest(.get()) }
    for stream: Int32 in [1, 3, 5] { try client.receive(Frame.headers([(":status", "200")], stream: stream).bytes) }
    #expect(streams.prefix(3).allSatisfy { client.recorder.cause(of: $0) == .finished })
    _ = client.output()
    #expect(client.session.isOver && client.session.failure == nil)
  }

  @Test("a request is unprocessed if GOAWAY arrives before the request is sent")
  func goAwayBeforeSending() throws {
    let client = try End(.client)
    _ = client.output()
    let stream = try client.session.submitRequest(.get())
    try client.receive(Frame(.settings).bytes + Frame(.goAway, Frame.number(0) + Frame.number(0)).bytes)
    _ = client.output()
    #expect(client.recorder.cause(of: stream) == .unprocessed)
  }

  @Test("a server that announces GOAWAY still answers the requests in flight")
  func announced() throws {
    let pair = try Pair()
    pair.server.echoes()
    pair.client.consumesAtOnce()
    try pair.run()
    let first = try pair.client.session.submitRequest(.post(), hasContent: true)
    let crossing = pair.client.output()
    pair.server.session.announceGoAway()
    let announcement = pair.server.output()
    try pair.server.receive(crossing)
    try pair.client.receive(announcement)
    #expect(!pair.client.session.canOpenStream)
    pair.server.session.goAway()
    try pair.run()
    #expect(!pair.server.session.isOver)
    pair.client.session.send([1, 2, 3], on: first, isLast: true)
    try pair.run()
    #expect(pair.client.recorder.content(on: first) == [1, 2, 3])
    #expect(pair.client.recorder.cause(of: first) == .finished)
    #expect(pair.client.session.isOver && pair.server.session.isOver)
    #expect(pair.client.session.failure == nil && pair.server.session.failure == nil)
  }

  @Test("a reset by the server has the right cause for the client", arguments: resets)
  func resetByPeer(_ label: String, _ frames: [Frame], _ cause: HTTP2StreamClosure.Cause) throws {
    let client = try End(.client)
    let stream = try client.session.submitRequest(.get())
    _ = client.output()
    try client.receive(Frame(.settings).bytes + frames.flatMap(\.bytes))
    #expect(client.recorder.cause(of: stream) == cause)
    #expect(client.session.openStreams == 0)
  }

  static let resets: [(String, [Frame], HTTP2StreamClosure.Cause)] = [
    ("refused", [reset(7)], .unprocessed),
    ("cancelled", [reset(8)], .resetByPeer),
    ("without a fault", [reset(0)], .resetByPeer),
    ("refused after the response began", [begun, reset(7)], .resetByPeer),
    ("without a fault after the response began", [begun, reset(0)], .resetByPeer),
    ("without a fault after the whole response", [.headers([(":status", "200")]), reset(0)], .finished),
  ]

  private static let begun = Frame.headers([(":status", "200")], flags: Frame.endHeaders)
  private static func reset(_ code: UInt8) -> Frame { Frame(.resetStream, stream: 1, [0, 0, 0, code]) }

  @Test("a server may send its whole response and then reset the request")
  func earlyResponse() throws {
    let pair = try Pair()
    pair.server.reacts { server, event in
      guard case .request(let stream, _) = event else { return }
      #expect(throws: Never.self) { try server.session.submitResponse(HTTP2ResponseHead(status: 413), on: stream) }
    }
    let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
    pair.client.session.send(content(1_000_000), on: stream, isLast: true)
    try pair.run()
    #expect(pair.client.recorder.events.contains(.response(stream, HTTP2ResponseHead(status: 413))))
    pair.server.session.reset(stream, .noError)
    try pair.run()
    #expect(pair.client.recorder.cause(of: stream) == .finished)
    #expect(pair.server.recorder.cause(of: stream) == .resetLocally)
  }

  @Test("after its own reset, a client gets only the end of the stream, even for frames received before")
  func resetWithin() throws {
    let client = try End(.client)
    let stream = try client.session.submitRequest(.get())
    _ = client.output()
    client.reacts { client, event in
      if case .response = event { client.session.reset(stream, .cancel) }
    }
    try client.receive(
      Frame(.settings).bytes + Frame.headers([(":status", "200")], flags: Frame.endHeaders).bytes
        + Frame(.data, stream: 1, [1]).bytes + Frame(.data, stream: 1, [2]).bytes)
    _ = client.output()
    #expect(
      client.recorder.story == [
        .response(stream, HTTP2ResponseHead(status: 200)), .closed(stream, .resetLocally, .cancel),
      ])
  }

  @Test("a request that is reset before it is sent is never sent")
  func resetUnsent() throws {
    let client = try End(.client)
    let before = client.output()
    let stream = try client.session.submitRequest(.get())
    client.session.reset(stream, .cancel)
    let output = client.output()
    #expect(client.recorder.cause(of: stream) == .resetLocally)
    #expect(client.session.openStreams == 0)
    try End(.server).receive(before + output)
    let server = try End(.server)
    try server.receive(before + output)
    #expect(server.recorder.requests.isEmpty)
  }

  @Test("a lost connection ends every stream once, and unsent requests are unprocessed")
  func lost() throws {
    let pair = try Pair()
    let sent = try pair.client.session.submitRequest(.get())
    try pair.run()
    let unsent = try pair.client.session.submitRequest(.get())
    for _ in 0..<2 {
      pair.client.session.connectionLost(delegate: pair.client.recorder)
      pair.server.session.connectionLost(delegate: pair.server.recorder)
    }
    #expect(pair.client.recorder.cause(of: sent) == .connectionLost)
    #expect(pair.client.recorder.cause(of: unsent) == .unprocessed)
    #expect(pair.server.recorder.cause(of: sent) == .connectionLost)
    #expect(pair.client.session.isOver && !pair.client.session.canOpenStream && !pair.client.session.wantsWrite)
    #expect(pair.client.session.openStreams == 0)
  }

  @Test("calls for closed or unknown streams do nothing")
  func unknownStreams() throws {
    let pair = try Pair()
    pair.server.echoes()
    let stream = try pair.client.session.submitRequest(.get())
    try pair.run()
    for session in [pair.client.session, pair.server.session] {
      for id in [stream, 0, 2, 77, -1] {
        session.reset(id, .cancel)
        session.consume(10, on: id)
        #expect(!session.send([1], on: id))
        try session.submitResponse(HTTP2ResponseHead(status: 200), on: id)
      }
      #expect(!session.wantsWrite)
    }
  }
}
