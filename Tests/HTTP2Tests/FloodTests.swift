import HTTP2
import HTTPTypes
import Testing

@Suite("A flood")
struct FloodTests {
  @Test("frames without content end a server's session", arguments: floods)
  func idleFrames(_ label: String, _ frame: Frame) throws {
    let server = try End(.server)
    let open = Frame.headers(Frame.get, stream: 3, flags: Frame.endHeaders).bytes
    try server.receive(Frame.preface + open)
    #expect(throws: HTTP2Error.flood(.idleFrames)) {
      for _ in 0..<1100 { try server.receive(frame.bytes) }
    }
    #expect(endsCalmly(server))
  }

  @Test("frames without content end a server's session when they arrive together", arguments: floods)
  func atOnce(_ label: String, _ frame: Frame) throws {
    let server = try End(.server)
    let open = Frame.headers(Frame.get, stream: 3, flags: Frame.endHeaders).bytes
    #expect(throws: HTTP2Error.flood(.idleFrames)) {
      try server.receive(Frame.preface + open + Array(repeating: frame.bytes, count: 100_000).flatMap { $0 })
    }
    #expect(endsCalmly(server))
    #expect(server.output().isEmpty)
  }

  static let floods: [(String, Frame)] = [
    ("SETTINGS", Frame(.settings)),
    ("PING", Frame(.ping, content(8))),
    ("PING acknowledgements", Frame(.ping, flags: Frame.ack, content(8))),
    ("PRIORITY", Frame(.priority, stream: 5, [0, 0, 0, 0, 1])),
    ("window updates", Frame(.windowUpdate, stream: 3, [0, 0, 0, 1])),
    ("window updates of the connection", Frame(.windowUpdate, [0, 0, 0, 1])),
    ("empty DATA", Frame(.data, stream: 3)),
    ("DATA of padding", Frame(.data, flags: 0x8, stream: 3, [1, 0])),
    ("frames of an unknown type", Frame(.unknown)),
    ("frames for a closed stream", Frame(.headers, flags: 5, stream: 1, [])),
  ]

  @Test("endless 103 responses end a client's session")
  func informational() throws {
    let client = try End(.client)
    _ = try client.session.submitRequest(.get())
    _ = client.output()
    try client.receive(Frame(.settings).bytes)
    #expect(throws: HTTP2Error.flood(.idleFrames)) {
      for _ in 0..<1100 { try client.receive(Frame.headers([(":status", "103")], flags: Frame.endHeaders).bytes) }
    }
    #expect(endsCalmly(client))
  }

  @Test(
    "rapid resets of new streams end a server's session, whatever their code", arguments: [0, 2, 7, 8, 0xff] as [UInt8])
  func rapidReset(_ code: UInt8) throws {
    let server = try End(.server)
    try server.receive(Frame.preface)
    #expect(throws: HTTP2Error.flood(.resets)) {
      for index in 0..<300 {
        let stream = Int32(2 * index + 1)
        try server.receive(
          Frame.headers(Frame.get, stream: stream).bytes + Frame(.resetStream, stream: stream, [0, 0, 0, code]).bytes)
      }
    }
    #expect(server.recorder.events.allSatisfy { $0 == .settings }, "a request that is reset at once causes no work")
    #expect(endsCalmly(server))
  }

  @Test("requests that the client resets later end a server's session as well", arguments: [0, 8] as [UInt8])
  func laterReset(_ code: UInt8) throws {
    let server = try End(.server)
    try server.receive(Frame.preface)
    #expect(throws: HTTP2Error.flood(.resets)) {
      for index in 0..<300 {
        let stream = Int32(2 * index + 1)
        try server.receive(Frame.headers(Frame.get, stream: stream).bytes)
        try server.receive(Frame(.resetStream, stream: stream, [0, 0, 0, code]).bytes)
      }
    }
    #expect(server.recorder.requests.count == 201)
    #expect(server.recorder.events.count { if case .closed = $0 { true } else { false } } == 201)
  }

  @Test("two complete responses offset one reset, so a client that resets every other stream loses its connection")
  func everyOther() throws {
    let pair = try Pair()
    pair.server.echoes()
    pair.client.consumesAtOnce()
    var rounds = 0
    #expect(throws: HTTP2Error.flood(.resets)) {
      while rounds < 1000 {
        let kept = try pair.client.session.submitRequest(.post(), hasContent: true)
        let reset = try pair.client.session.submitRequest(.post(), hasContent: true)
        pair.client.session.send([1], on: kept, isLast: true)
        try pair.run()
        pair.client.session.reset(reset, .cancel)
        try pair.run()
        rounds += 1
      }
    }
    // The first response had nothing to offset.
    #expect(rounds == 399)
  }

  @Test("streams that the server must reset count as much as resets by the client")
  func madeYouReset() throws {
    let server = try End(.server)
    try server.receive(Frame.preface)
    #expect(throws: HTTP2Error.flood(.resets)) {
      for index in 0..<300 {
        let stream = Int32(2 * index + 1)
        let fields = Frame.get + [("content-length", "0")]
        try server.receive(Frame.headers(fields, stream: stream, flags: Frame.endHeaders).bytes)
        try server.receive(Frame(.data, stream: stream, [1]).bytes)
        _ = server.output()
      }
    }
  }

  @Test("useful work offsets idle frames, so a client that pings, updates windows and cancels at times continues")
  func makesUp() throws {
    let pair = try Pair()
    pair.server.echoes()
    pair.client.consumesAtOnce()
    for index in 0..<4000 {
      pair.client.session.ping(UInt64(index))
      pair.client.session.ping(UInt64(index))
      let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
      if index.isMultiple(of: 3) {
        try pair.run()
        pair.client.session.reset(stream, .cancel)
      } else {
        pair.client.session.send([1], on: stream, isLast: true)
      }
      try pair.run()
    }
    #expect(pair.server.session.failure == nil && pair.client.session.failure == nil)
  }

  @Test("a peer may acknowledge any number of our pings, and no others")
  func pings() throws {
    let client = try End(.client)
    try client.receive(Frame(.settings).bytes)
    let payload = Array("12345678".utf8)
    for index in 0..<3000 {
      client.session.ping(UInt64(index))
      _ = client.output()
      try client.receive(Frame(.ping, flags: Frame.ack, payload).bytes)
    }
    #expect(throws: HTTP2Error.flood(.idleFrames)) {
      for _ in 0..<1100 { try client.receive(Frame(.ping, flags: Frame.ack, payload).bytes) }
    }
  }

  @Test("a reader that credits each small part is not counted as idle")
  func smallReads() throws {
    let pair = try Pair(client: { $0.streamWindow = 64 })
    pair.server.echoes()
    pair.client.consumesAtOnce()
    try pair.run()
    let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
    pair.client.session.send(content(200_000), on: stream, isLast: true)
    try pair.run()
    #expect(pair.client.recorder.content(on: stream).count == 200_000)
  }

  private func endsCalmly(_ end: End) -> Bool {
    let output = end.output()
    let goAway = [UInt8(7), 0, 0, 0, 0, 0]
    return end.session.isOver && output.contains(goAway) && output.contains([0, 0, 0, 0xb])
  }
}
