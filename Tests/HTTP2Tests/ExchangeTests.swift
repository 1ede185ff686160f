import Bytes
import HTTP1
import HTTP2
import HTTPTypes
import Testing

@Suite("An exchange between a client and a server")
struct ExchangeTests {
  @Test("a request and its response arrive unchanged")
  func arrives() throws {
    let pair = try Pair()
    let fields: FieldLines = [
      .accept: "application/json", .authorization: "Bearer token",
    ]
    let stream = try pair.client.session.submitRequest(.get("/v1/catalog/us/albums?ids=1,2&l=de", fields: fields))
    try pair.run()
    guard case .request(stream, let head) = pair.server.recorder.story.first else {
      Issue.record("\(pair.server.recorder.story)")
      return
    }
    #expect(head == .get("/v1/catalog/us/albums?ids=1,2&l=de", fields: fields))
    #expect(pair.server.recorder.story.dropFirst() == [.end(stream)])

    let response = HTTP2ResponseHead(status: 404, fields: [.contentType: "text/plain", .eTag: "\"x\""])
    try pair.server.session.submitResponse(response, on: stream, hasContent: true)
    pair.server.session.send(Array("gone".utf8), on: stream, isLast: true)
    try pair.run()
    #expect(
      pair.client.recorder.story == [
        .response(stream, response), .content(stream, Array("gone".utf8)), .end(stream),
        .closed(stream, .finished, .noError),
      ])
    #expect(pair.server.recorder.story.last == .closed(stream, .finished, .noError))
    #expect(pair.client.session.openStreams == 0 && pair.server.session.openStreams == 0)
  }

  @Test("connection fields and Host are not sent")
  func connectionFields() throws {
    let pair = try Pair()
    let names = ["Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Host"]
    var fields: FieldLines = [.accept: "*/*"]
    for name in names { fields.append(HTTPField(name: try #require(.init(name)), value: "x")) }
    let stream = try pair.client.session.submitRequest(.get(fields: fields))
    try pair.run()
    #expect(pair.server.recorder.events.contains(.request(stream, .get(fields: [.accept: "*/*"]))))
  }

  @Test("a hundred concurrent streams each get their own content back")
  func manyStreams() throws {
    let pair = try Pair()
    pair.server.echoes()
    pair.client.consumesAtOnce()
    try pair.run()
    var sent: [HTTP2StreamID: [UInt8]] = [:]
    for index in 1...100 {
      let stream = try pair.client.session.submitRequest(.post("/\(index)"), hasContent: true)
      sent[stream] = content(index * 997)
    }
    #expect(!pair.client.session.canOpenStream)
    #expect(throws: HTTP2Error.noStreamAvailable) { try pair.client.session.submitRequest(.get()) }
    for (stream, bytes) in sent { pair.client.session.send(bytes, on: stream, isLast: true) }
    try pair.run()
    for (stream, bytes) in sent {
      #expect(pair.client.recorder.content(on: stream) == bytes)
      #expect(pair.client.recorder.cause(of: stream) == .finished)
    }
    #expect(pair.client.session.canOpenStream && pair.client.session.openStreams == 0)
  }

  @Test("the outcome is the same wherever the bytes are split", arguments: [1, 2, 3, 7, 9, 10, 1000])
  func cuts(_ arrival: Int) throws {
    func story(_ arrival: Int) throws -> ([Recorder.Event], [Recorder.Event]) {
      let pair = try Pair()
      pair.arrival = arrival
      pair.server.echoes()
      pair.client.consumesAtOnce()
      let session = pair.client.session
      let stream = try session.submitRequest(.post("/a", fields: [.contentLength: "40000"]), hasContent: true)
      session.send(content(40_000), on: stream, isLast: true)
      _ = try session.submitRequest(.get("/b"))
      session.ping(0x0102_0304_0506_0708)
      try pair.run()
      session.goAway()
      try pair.run()
      #expect(session.isOver && session.failure == nil)
      return (pair.client.recorder.story, pair.server.recorder.story)
    }
    let (client, server) = try story(arrival)
    let (clientAtOnce, serverAtOnce) = try story(.max)
    #expect(client == clientAtOnce)
    #expect(server == serverAtOnce)
    #expect(client.contains(.pong(0x0102_0304_0506_0708)))
  }

  @Test("output is collected in parts of about the requested size")
  func outputLimit() throws {
    let pair = try Pair()
    try pair.run()
    let stream = try pair.client.session.submitRequest(.post(), hasContent: true)
    pair.client.session.send(content(50_000), on: stream, isLast: true)
    var all: [UInt8] = []
    while pair.client.session.wantsWrite {
      let before = all.count
      pair.client.session.collectOutput(into: &all, limit: 1000, delegate: pair.client.recorder)
      #expect(1...1000 + 16_393 ~= all.count - before)
    }
    try pair.server.receive(all)
    #expect(pair.server.recorder.content(on: stream) == content(50_000))
  }

  @Test("a delegate may respond and collect output during a callback")
  func fromWithin() throws {
    let pair = try Pair()
    var output: [UInt8] = []
    let server = pair.server
    server.reacts { server, event in
      guard case .request(let stream, _) = event else { return }
      #expect(throws: Never.self) { try server.session.submitResponse(HTTP2ResponseHead(status: 204), on: stream) }
      server.session.collectOutput(into: &output, limit: 100_000, delegate: server.recorder)
    }
    let streams = try (0..<3).map { _ in try pair.client.session.submitRequest(.get()) }
    try server.receive(pair.client.output())
    try pair.client.receive(output)
    for stream in streams {
      #expect(pair.client.recorder.events.contains(.response(stream, HTTP2ResponseHead(status: 204))))
      #expect(server.recorder.cause(of: stream) == .finished)
    }
  }

  @Test("only the owner of a session keeps the session alive")
  func lifetime() throws {
    weak var session: HTTP2Session?
    do {
      let pair = try Pair()
      _ = try pair.client.session.submitRequest(.post(), hasContent: true)
      try pair.run()
      session = pair.client.session
      #expect(session != nil)
    }
    #expect(session == nil)
  }

  @Test("a session refuses to send a malformed request", arguments: unsendable)
  func refusesToSend(_ label: String, _ head: HTTP2RequestHead, error: HTTP2Error) throws {
    let client = try End(.client)
    #expect(throws: error) { try client.session.submitRequest(head) }
    #expect(client.session.canOpenStream)
  }

  static let unsendable: [(String, HTTP2RequestHead, HTTP2Error)] = [
    ("a line break in the path", .get("/\r\nx: y"), .malformedMessage),
    ("no path", .get(""), .malformedMessage),
    ("NUL in the authority", .init(method: "GET", scheme: "https", authority: "a\0", path: "/"), .malformedMessage),
    ("a space in the method", .init(method: "GE T", scheme: "https", authority: "a", path: "/"), .malformedMessage),
    (
      "60 KiB of fields", .get(fields: [.accept: String(repeating: "a", count: 61_440)]),
      .fieldSectionTooLarge(limit: 61_440)
    ),
  ]

  @Test("a client observes the server's limit on the header section")
  func peerFieldSection() throws {
    let pair = try Pair(server: { $0.fieldSection = 500 })
    try pair.run()
    #expect(throws: HTTP2Error.fieldSectionTooLarge(limit: 500)) {
      try pair.client.session.submitRequest(.get(fields: [.accept: String(repeating: "a", count: 500)]))
    }
  }
}
