import CNghttp2
import HTTP1
import HTTPTypes
import Testing

@testable import HTTP2

@Suite("The limits of a session")
struct LimitTests {
  @Test(
    "an oversized request header section is reported without its fields, so the server can respond", arguments: sections
  )
  func oversizedRequest(_ label: String, _ fields: [(String, String)], isTaken: Bool) throws {
    let server = try End(.server)
    try server.receive(Frame.preface + Frame.headers(Frame.get + fields).bytes)
    guard !isTaken else {
      #expect(server.recorder.requests == [1])
      return
    }
    #expect(server.recorder.story == [.oversizedRequest(1), .end(1)])
    try server.session.submitResponse(HTTP2ResponseHead(status: 431), on: 1)
    _ = server.output()
    #expect(server.recorder.cause(of: 1) == .finished)
  }

  @Test(
    "of an oversized request header section the lines of Origin are kept, wherever they are, and nothing else",
    arguments: [
      ([("origin", "https://a")], [("x", "y")], ["origin: https://a"]),
      ([("x", "y")], [("origin", "https://a"), ("authorization", "secret")], ["origin: https://a"]),
      ([("origin", "a"), ("cookie", "c")], [("origin", "b"), ("origin", "c")], ["origin: a", "origin: b"]),
      ([], [("origin", String(repeating: "o", count: 900))], ["origin: " + String(repeating: "o", count: 600)]),
      ([("origins", "a")], [("host", "h")], []),
    ] as [([(String, String)], [(String, String)], [String])])
  func oversizedOrigin(_ before: [(String, String)], _ after: [(String, String)], kept: [String]) throws {
    let server = try End(.server)
    let fields = before + Array(repeating: ("a", "b"), count: 101) + after
    try server.receive(Frame.preface + Frame.headers(Frame.get + fields).bytes)
    #expect(server.recorder.story == [.oversizedRequest(1), .end(1)])
    #expect(server.recorder.rests == [kept])
    try server.receive(Frame.headers(Frame.get, stream: 3).bytes)
    #expect(server.recorder.requests == [3], "the next request is whole")
  }

  @Test("an oversized response header section closes its stream", arguments: sections)
  func oversizedResponse(_ label: String, _ fields: [(String, String)], isTaken: Bool) throws {
    let client = try End(.client)
    let stream = try client.session.submitRequest(.get())
    _ = client.output()
    let head = [(":status", "200")] + fields
    try client.receive(Frame(.settings).bytes + Frame.headers(head).bytes)
    _ = client.output()
    #expect(client.recorder.cause(of: stream) == (isTaken ? .finished : .fieldSectionTooLarge))
    #expect(client.session.failure == nil)
  }

  static let sections: [(String, [(String, String)], Bool)] = [
    ("100 fields", Array(repeating: ("a", "b"), count: 100), true),
    ("101 fields", Array(repeating: ("a", "b"), count: 101), false),
    ("15 kB in one field", [("a", String(repeating: "b", count: 15_000))], true),
    ("100 fields of nothing", Array(repeating: ("a", ""), count: 100), true),
  ]

  @Test("a header section somewhat over the limit is refused alone, and the table is as the client thinks it is")
  func expandedSection() throws {
    let server = try End(.server)
    try server.receive(Frame.preface + Self.bomb(references: 14))
    #expect(server.recorder.story == [.oversizedRequest(3), .end(3)])
    try server.receive(Frame.headers(Frame.get, stream: 5).bytes)
    #expect(server.recorder.requests == [5])
  }

  @Test(
    "a header block that expands to more than twice the limit ends the session, and nothing behind is decoded",
    arguments: [
      ("many references", bomb(references: 16_000)),
      ("references just above", bomb(references: 16)),
      ("a name from the static table, repeated", many([0x90], 1600)),
      ("empty fields", many([0x00, 1, 97, 0], 2000)),
    ] as [(String, [UInt8])])
  func decompressionBomb(_ label: String, _ bytes: [UInt8]) throws {
    let server = try End(.server)
    try server.receive(Frame.preface + Frame.headers(Frame.get, stream: 1).bytes)
    #expect(throws: HTTP2Error.flood(.fieldSection)) {
      try server.receive(bytes + Frame.headers(Frame.get, stream: 5).bytes)
    }
    #expect(server.recorder.requests == [1])
    let output = server.output()
    #expect(server.session.isOver && output.contains([0, 0, 0, 0xb]), "GOAWAY with ENHANCE_YOUR_CALM")
    server.session.connectionLost(delegate: server.recorder)
    #expect(server.recorder.lost == [.fieldSectionTooLarge])
  }

  @Test("most of the decoding of such a block is saved, wherever its bytes are split", arguments: [1, 7, 16_384])
  func savedDecoding(_ size: Int) throws {
    let server = try End(.server)
    try server.receive(Frame.preface)
    let bytes = Self.bomb(references: 16_000)
    var received = 0
    while server.session.failure == nil, received < bytes.count {
      let part = Array(bytes[received..<min(received + size, bytes.count)])
      received += part.count
      try? server.receive(part)
    }
    #expect(server.session.failure == .flood(.fieldSection))
    #expect(received <= 4200 + size)
  }

  @Test("oversized requests in a row end the session, and useful ones offset them")
  func oversizedInARow() throws {
    let large = Frame.get + Array(repeating: ("a", "b"), count: 101)
    func refuse(_ count: Int, with useful: Bool) throws -> End {
      let server = try End(.server)
      server.reacts { server, event in
        switch event {
        case .request(let stream, _): try? server.session.submitResponse(HTTP2ResponseHead(status: 200), on: stream)
        case .oversizedRequest(let stream):
          try? server.session.submitResponse(HTTP2ResponseHead(status: 431), on: stream)
        default: break
        }
      }
      try server.receive(Frame.preface)
      for index in 0..<count {
        try server.receive(Frame.headers(large, stream: Int32(4 * index + 1)).bytes)
        if useful { try server.receive(Frame.headers(Frame.get, stream: Int32(4 * index + 3)).bytes) }
        _ = server.output()
      }
      return server
    }
    #expect(try refuse(200, with: false).session.failure == nil)
    #expect(throws: HTTP2Error.flood(.resets)) { try refuse(300, with: false) }
    #expect(try refuse(300, with: true).session.failure == nil)
  }

  /// A frame that adds a field of 4000 bytes to the table (RFC 7541 §6.2.1), then refers to the field with a byte each.
  private static func bomb(references: Int) -> [UInt8] {
    let field = Frame.literals([("a", String(repeating: "b", count: 4000))])
    return many([0x40] + field.dropFirst() + Array(repeating: 0xbe, count: references), 1)
  }

  /// A request with the same representation of a field many times, in one frame of at most 16 KiB and its continuation.
  private static func many(_ field: [UInt8], _ count: Int) -> [UInt8] {
    let block = Frame.literals(Frame.get) + Array(repeating: field, count: count).flatMap { $0 }
    let (first, rest) = (block.prefix(16_384), block.dropFirst(16_384))
    guard !rest.isEmpty else { return Frame(.headers, flags: 5, stream: 3, block).bytes }
    return Frame(.headers, flags: 1, stream: 3, Array(first)).bytes
      + Frame(.continuation, flags: 4, stream: 3, Array(rest)).bytes
  }

  /// Frames with heads of 28 kB, by a field of 4000 bytes in the table (RFC 7541 §6.2.1) and a byte for each use of it.
  private static func expanding(_ count: Int) -> [UInt8] {
    let field = [0x40] + Frame.literals([("a", String(repeating: "b", count: 4000))]).dropFirst()
    return (0..<count).flatMap { index -> [UInt8] in
      let block = Frame.literals(Frame.get) + (index == 0 ? field : []) + Array(repeating: 0xbe, count: 7)
      return Frame(.headers, flags: 5, stream: Int32(2 * index + 1), block).bytes
    }
  }

  @Test("heads that expand in one arrival are delivered before they fill the memory, and no head is lost")
  func manyExpandingHeads() throws {
    let server = try End(.server)
    let most = Most()
    server.reacts { server, _ in most.value = max(most.value, server.session.heldBytes) }
    try server.receive(Frame.preface + Self.expanding(100))
    #expect(server.recorder.requests == Array(stride(from: 1, to: 200, by: 2)))
    #expect(most.value > 65_536 && most.value < 262_144, "\(most.value)")
    _ = server.output()
    let modest = try End(.server)
    try modest.receive(Frame.preface + (0..<100).flatMap { Frame.headers(Frame.get, stream: Int32(2 * $0 + 1)).bytes })
    _ = modest.output()
    #expect(server.session.heldBytes <= modest.session.heldBytes + 8192)
  }

  @Test("a pause for delivery does not depend on where the bytes end")
  func pauseAtTheEnd() throws {
    let bytes = Frame.preface + Self.expanding(9)
    let server = try End(.server)
    try server.receive(bytes)
    #expect(server.recorder.events.filter { if case .end = $0 { true } else { false } }.count == 9)
  }

  private final class Most {
    var value = 0
  }

  @Test("what a peer makes the session hold is counted: content, acknowledgements, a header block without its end")
  func heldBytes() throws {
    let server = try End(.server)
    let noWindow = Frame(.settings, [0, 4, 0, 0, 0, 0])
    try server.receive(Frame.preface + noWindow.bytes + Frame.headers(Frame.get).bytes)
    let idle = server.session.heldBytes
    try server.session.submitResponse(HTTP2ResponseHead(status: 200), on: 1, hasContent: true)
    server.session.send(content(50_000), on: 1)
    _ = server.output()
    #expect(server.session.heldBytes >= 50_000 && server.session.heldBytes < 51_000 + idle)
    server.session.reset(1, .cancel)
    _ = server.output()
    #expect(server.session.heldBytes <= idle)
    for _ in 0..<100 { try server.receive(Frame(.ping, content(8)).bytes) }
    #expect(server.session.heldBytes >= 100 * 100, "the library holds an acknowledgement for each PING")
    _ = server.output()
    #expect(server.session.heldBytes <= idle)
    let block = Frame.literals(Frame.get + [("a", String(repeating: "b", count: 10_000))])
    try server.receive(Frame(.headers, flags: Frame.endStream, stream: 3, block).bytes)
    #expect(server.session.heldBytes >= 10_000)
    try server.receive(Frame(.continuation, flags: Frame.endHeaders, stream: 3, Frame.literals([])).bytes)
    #expect(server.session.heldBytes <= idle + 8192)
  }

  @Test("fields of one byte, of which HPACK's table takes the most, are counted with their real size")
  func smallFields() throws {
    let server = try End(.server)
    try server.receive(Frame.preface)
    _ = server.output()
    let idle = server.session.heldBytes
    let fields = (0..<60).flatMap { [0x40, 1, UInt8(97 + $0 % 26), 0] as [UInt8] }
    let request = Frame(.headers, flags: 5, stream: 1, Frame.literals(Frame.get) + fields)
    try server.receive(request.bytes)
    server.session.reset(1, .cancel)
    _ = server.output()
    // HPACK counts 33 bytes for each field (RFC 7541 §4.1). nghttp2 has three blocks for it, of which two have the texts.
    #expect(server.session.heldBytes > idle + 60 * 150)
  }

  @Test("the table of HPACK for what is sent takes half of the protocol's default")
  func tables() throws {
    let (server, client) = (try End(.server), try End(.client))
    for _ in 0..<2 {
      try server.receive(client.output())
      try client.receive(server.output())
    }
    for round in 0..<100 {
      let fields: FieldLines = [try #require(HTTPField.Name("x-\(round)")): "a"]
      let stream = try client.session.submitRequest(.get(fields: fields))
      try server.receive(client.output())
      try server.session.submitResponse(HTTP2ResponseHead(status: 200, fields: fields), on: stream)
      try client.receive(server.output())
    }
    for end in [server, client] {
      #expect(unsafe nghttp2_session_get_hd_inflate_dynamic_table_size(end.session.session) > 1024)
      #expect(unsafe nghttp2_session_get_hd_inflate_dynamic_table_size(end.session.session) <= 2048)
      #expect(unsafe nghttp2_session_get_hd_deflate_dynamic_table_size(end.session.session) <= 2048)
    }
  }

  @Test("oversized trailers close their stream")
  func trailers() throws {
    let server = try End(.server)
    try server.receive(
      Frame.preface + Frame.headers(Frame.get, flags: Frame.endHeaders).bytes
        + Frame.headers(Array(repeating: ("a", "b"), count: 101)).bytes)
    _ = server.output()
    #expect(server.recorder.cause(of: 1) == .fieldSectionTooLarge)
  }

  @Test("an endless header section ends the session")
  func continuations() throws {
    let server = try End(.server)
    let start = Frame.headers(Frame.get, flags: Frame.endStream).bytes
    #expect(throws: HTTP2Error.self) {
      try server.receive(Frame.preface + start)
      for _ in 0..<100 { try server.receive(Frame(.continuation, stream: 1).bytes) }
      _ = server.output()
      try server.receive([])
    }
    #expect(server.recorder.requests.isEmpty)
  }

  @Test("streams beyond the limit are refused, and the others continue")
  func concurrentStreams() throws {
    let server = try End(.server) { $0.concurrentStreams = 3 }
    try server.receive(Frame.preface)
    for index in 0..<5 {
      try server.receive(Frame.headers(Frame.get, stream: Int32(2 * index + 1)).bytes)
    }
    #expect(server.recorder.requests == [1, 3, 5])
    let output = server.output()
    for stream: Int32 in [7, 9] {
      #expect(output.contains(Frame(.resetStream, stream: stream, [0, 0, 0, 7]).bytes), "REFUSED_STREAM")
    }
    #expect(server.session.failure == nil)
  }

  @Test("a client observes the server's limit on concurrent streams")
  func peerConcurrentStreams() throws {
    let pair = try Pair(server: { $0.concurrentStreams = 2 })
    try pair.run()
    #expect(pair.client.session.peerMaxConcurrentStreams == 2)
    let first = try pair.client.session.submitRequest(.get())
    _ = try pair.client.session.submitRequest(.get())
    #expect(!pair.client.session.canOpenStream)
    try pair.run()
    #expect(pair.client.recorder.cause(of: first) == nil)
    try pair.server.session.submitResponse(HTTP2ResponseHead(status: 200), on: first)
    try pair.run()
    #expect(pair.client.session.canOpenStream)
  }
}
