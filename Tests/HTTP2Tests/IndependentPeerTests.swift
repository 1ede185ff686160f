import Bytes
import HTTP1
import HTTP2
import HTTPTypes
import TestSupport
import Testing

@Suite("With Python's h2", .otherPrograms)
struct IndependentPeerTests {
  @Test("a client gets its own content back on many concurrent streams")
  func clientEchoes() throws {
    let peer = try PythonPeer("server")
    let client = try End(.client)
    client.consumesAtOnce()
    var sent: [HTTP2StreamID: [UInt8]] = [:]
    for size in [0, 1, 100, 16_384, 16_385, 65_535, 65_536, 300_000] {
      let fields: FieldLines = [.contentLength: "\(size)", .authorization: "Bearer x"]
      let stream = try client.session.submitRequest(.post("/echo", fields: fields), hasContent: true)
      client.session.send(content(size), on: stream, isLast: true)
      sent[stream] = content(size)
    }
    try peer.run(client) { client.session.openStreams == 0 }
    for (stream, bytes) in sent {
      #expect(client.recorder.content(on: stream) == bytes)
      #expect(client.recorder.cause(of: stream) == .finished)
    }
    client.session.goAway()
    try peer.run(client) { true }
    #expect(try peer.finish() == "")
  }

  @Test("a client handles content, resets, new settings and GOAWAY")
  func clientSees() throws {
    let peer = try PythonPeer("server")
    let client = try End(.client)
    client.consumesAtOnce()
    func ask(_ path: String) throws -> HTTP2StreamID {
      let stream = try client.session.submitRequest(.get(ByteString(path)))
      try peer.run(client) { client.session.openStreams == 0 }
      return stream
    }
    for size in [0, 10, 200_000] {
      let stream = try ask("/content?count=\(size)")
      #expect(client.recorder.content(on: stream) == content(size))
      #expect(client.recorder.cause(of: stream) == .finished)
    }
    #expect(client.recorder.cause(of: try ask("/reset?code=7")) == .unprocessed)
    #expect(client.recorder.cause(of: try ask("/reset?code=8")) == .resetByPeer)
    #expect(client.recorder.cause(of: try ask("/settings?streams=7")) == .finished)
    #expect(client.session.peerMaxConcurrentStreams == 7)
    let last = try client.session.submitRequest(.get("/goaway"))
    try peer.run(client) { !client.session.canOpenStream && client.session.openStreams == 0 }
    #expect(client.recorder.cause(of: last) == .finished)
    guard
      case .goAway(let goAway) = client.recorder.events.first(where: { if case .goAway = $0 { true } else { false } })
    else {
      Issue.record("no GOAWAY")
      return
    }
    #expect(goAway.lastStreamID == last && goAway.code == .noError && goAway.debugText == "goodbye")
    #expect(client.session.isOver && client.session.failure == nil)
    #expect(try peer.finish() == "")
  }

  @Test("a server answers a client on many concurrent streams")
  func serverResponds() throws {
    let peer = try PythonPeer("client")
    let server = try End(.server)
    server.echoes()
    try peer.run(server) { false }
    #expect(try peer.finish() == "")
    #expect(server.recorder.requests.count == 8)
    guard case .request(_, let head) = server.recorder.story.first else {
      Issue.record("no request")
      return
    }
    #expect(head.fields[values: .cookie] == ["a=b", "c=d"])
    #expect(server.session.isOver && server.session.failure == nil)
  }
}
