import HTTP2
import HTTPTypes
import Testing

@Suite("Flow control")
struct FlowControlTests {
  @Test("a stream stops at its window, and continues as its content is consumed")
  func stops() throws {
    let pair = try Pair(server: { $0.streamWindow = 10_000 })
    try pair.run()
    let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
    pair.client.session.send(content(35_000), on: stream, isLast: true)
    try pair.run()
    let server = pair.server
    #expect(server.recorder.content(on: stream).count == 10_000)
    for expected in [20_000, 30_000, 35_000] {
      server.session.consume(10_000, on: stream)
      try pair.run()
      #expect(server.recorder.content(on: stream).count == expected)
    }
    #expect(server.recorder.events.contains(.end(stream)))
    #expect(server.recorder.content(on: stream) == content(35_000))
  }

  @Test("unread streams do not block a stream that is read")
  func noStarvation() throws {
    let pair = try Pair(server: { $0.connectionWindow = 65_535 })
    try pair.run()
    for _ in 0..<20 {
      let stalled = try pair.client.session.submitRequest(.post(), hasContent: true)
      pair.client.session.send(content(100_000), on: stalled, isLast: true)
    }
    try pair.run()
    pair.server.consumesAtOnce()
    let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
    pair.client.session.send(content(1_000_000), on: stream, isLast: true)
    try pair.run()
    #expect(pair.server.recorder.content(on: stream) == content(1_000_000))
    #expect(pair.server.recorder.content(on: 1).count == 65_535)
  }

  @Test("dropped content of a reset stream does not use up the connection's window")
  func droppedContent() throws {
    let pair = try Pair(server: { $0.connectionWindow = 65_535 })
    try pair.run()
    pair.server.reacts { server, event in
      if case .request(let stream, _) = event, stream < 39 { server.session.reset(stream, .cancel) }
    }
    for _ in 0..<20 {
      let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
      pair.client.session.send(content(60_000), on: stream, isLast: true)
      try pair.run()
    }
    #expect(pair.server.recorder.content(on: 39).count == 60_000)
    #expect((0..<19).allSatisfy { pair.server.recorder.content(on: 2 * $0 + 1).isEmpty })
  }

  @Test("a sender learns when its queue is full and when the queue has room again")
  func backPressure() throws {
    let pair = try Pair(
      client: { $0.sendQueue = 20_000 }, server: { $0.streamWindow = 30_000 })
    pair.server.consumesAtOnce()
    try pair.run()
    let client = pair.client
    let stream = try client.session.submitRequest(.post(), hasContent: true)
    #expect(client.session.send(content(19_999), on: stream))
    #expect(!client.session.send(content(10_000), on: stream))
    #expect(!client.recorder.events.contains(.room(stream)))
    try pair.run()
    #expect(client.recorder.events.filter { $0 == .room(stream) }.count == 1)
    client.session.send([], on: stream, isLast: true)
    client.session.send([1], on: stream)
    try pair.run()
    #expect(pair.server.recorder.content(on: stream) == content(19_999) + content(10_000))
    #expect(pair.server.recorder.events.last == .end(stream))
  }

  @Test("content in many small parts arrives part by part")
  func smallParts() throws {
    let pair = try Pair()
    try pair.run()
    let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
    for index in 0..<100 {
      pair.client.session.send([UInt8(index)], on: stream)
      pair.client.session.send([UInt8(index)], on: stream)
      try pair.run()
      #expect(pair.server.recorder.content(on: stream).count == 2 * index + 2)
    }
    pair.client.session.send([], on: stream, isLast: true)
    try pair.run()
    #expect(pair.server.recorder.events.last == .end(stream))
  }

  @Test("a queue sends its parts in order, whatever the window", arguments: [1, 2, 3, 5, 64])
  func queue(_ room: Int) throws {
    let pair = try Pair(server: { $0.streamWindow = room })
    pair.server.consumesAtOnce()
    try pair.run()
    let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
    var sent: [UInt8] = []
    for count in 0..<40 {
      pair.client.session.send(content(count), on: stream)
      sent += content(count)
    }
    try pair.run()
    #expect(pair.server.recorder.content(on: stream) == sent)
  }

  @Test("long contents take turns frame by frame, and a short one does not wait for their end")
  func turns() throws {
    let pair = try Pair(client: { ($0.streamWindow, $0.connectionWindow) = (1 << 20, 1 << 24) })
    try pair.run()
    let streams = try (0..<3).map { _ in try pair.client.session.submitRequest(.get()) }
    let short = try pair.client.session.submitRequest(.get())
    try pair.run()
    for stream in streams + [short] {
      try pair.server.session.submitResponse(HTTP2ResponseHead(status: 200), on: stream, hasContent: true)
      pair.server.session.send(content(stream == short ? 100 : 400_000), on: stream, isLast: true)
    }
    try pair.run()
    let order = pair.client.recorder.events.compactMap { event -> HTTP2StreamID? in
      if case .content(let stream, _) = event { stream } else { nil }
    }
    let runs = order.indices.dropFirst().filter { order[$0] != order[$0 - 1] }.count
    #expect(runs > 60, "each frame is of another stream than the one before: \(order)")
    #expect(order.prefix(8).contains(short))
    for stream in streams { #expect(pair.client.recorder.content(on: stream) == content(400_000)) }
  }
}
