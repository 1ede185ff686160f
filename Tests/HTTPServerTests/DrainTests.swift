import Dispatch
import EventLoop
import Glibc
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import HTTPServer

/// A server that drains loses no request that has arrived.
@Suite struct DrainTests {
  private static let get = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test(
    "during a drain, the last response to the requests that have arrived announces the close", arguments: Variant.all)
  func lastResponse(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let old = try server.connect()
    try old.send(Self.get)
    #expect(try old.response()?.isLast == false)
    server.server.beginDrain()
    let new = try server.connect()
    for client in [old, new] {
      try client.send(Self.get + Self.get + Self.get)
      for isLast in [false, false, true] { #expect(try client.response()?.isLast == isLast) }
      #expect(try client.response() == nil)
    }
  }

  @Test("during a drain, HTTP/2 connections announce their end, and serve what has been sent until then", .realSeconds)
  func goAway() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), speaksHTTP2: true)
    let old = try RawClient(port: server.port)
    try old.send(WireFrame.preface)
    server.waitForConnections(1) { $0.http2 != nil }
    server.server.beginDrain()
    let new = try RawClient(port: server.port)
    try new.send(WireFrame.preface)
    for client in [old, new] { try client.send(WireFrame.get("/hello", stream: 1)) }
    for client in [old, new] {
      let frames = WireFrame.all(in: try client.restUndecrypted())
      #expect(frames.contains { $0.type == WireFrame.data && $0.content == Array("hello".utf8) })
      let last = frames.filter { $0.type == WireFrame.goAway }.map { Array($0.content.prefix(4)) }
      #expect(last == [[0x7F, 0xFF, 0xFF, 0xFF], [0, 0, 0, 1]])
    }
  }

  @Test("during a drain, the server answers every request of a pipeline longer than a buffer", arguments: Variant.all)
  func longPipeline(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    server.server.beginDrain()
    let released = Gate()
    server.occupy(until: released)
    // 64 bytes each: a whole number of them fills the receive buffer.
    let request = "GET /hello HTTP/1.1\r\nHost: a\r\nPad: \(String(repeating: "p", count: 25))\r\n\r\n"
    #expect(request.utf8.count == 64)
    try client.send(String(repeating: request, count: 1000))
    released.open()
    for number in 0..<1000 {
      let response = try #require(try client.response(), "response \(number)")
      if number < 999 { #expect(!response.isLast) }
    }
  }

  @Test("during a drain, unread content does not count as another request", arguments: Variant.all)
  func unreadBody(_ variant: Variant) throws {
    let server = try TestServer(variant)
    server.server.beginDrain()
    let post = "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    let alone = try server.responses(to: post)
    #expect(alone.map(\.status) == [405])
    #expect(alone.map(\.isLast) == [true])
    let followed = try server.responses(to: post + Self.get)
    #expect(followed.map(\.status) == [405, 200])
    #expect(followed.map(\.isLast) == [false, true])
  }

  @Test("idle connections close, and new connections are refused", .realSeconds, arguments: Variant.all)
  func idle(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let clients = try (0..<10).map { _ in try server.connect() }
    server.server.drain(timeout: .seconds(1000))
    for client in clients { #expect(try client.rest().isEmpty) }
    #expect(throws: TestFailure.self) { try RawClient(port: server.port) }
    #expect(server.connections == 0)
  }

  @Test("a request that arrives just before its idle connection closes is answered", arguments: Variant.all)
  func atTheLastMoment(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send(Self.get)
    #expect(try client.response()?.status == 200)
    let released = Gate()
    server.occupy(until: released)
    // The loop finds both when it polls again, and handles the order to close first.
    server.post { $0.drain(to: .closing) }
    try client.send(Self.get)
    released.open()
    let response = try #require(try client.response())
    #expect(response.isLast)
    #expect(try client.response() == nil)
  }

  @Test("an idle connection stays open for a request in transit", arguments: Variant.all)
  func onItsWay(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send(Self.get)
    #expect(try client.response()?.isLast == false)
    // The server knows only that nothing has arrived.
    _ = server.workers { $0.drain(to: .closing) }
    try client.send(Self.get)
    #expect(try client.response()?.isLast == true)
    #expect(try client.response() == nil)
  }

  @Test("a handshake in progress may complete, and its request is answered", arguments: Variant.tls)
  func handshake(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try RawClient(port: server.port)
    server.waitForConnections(1)
    _ = server.workers { $0.drain(to: .closing) }
    try client.startTLS()
    server.waitForConnections(1) { if case .handshake = $0.state.phase { false } else { true } }
    try client.send(Self.get)
    #expect(try client.response()?.isLast == true)
    #expect(try client.response() == nil)
  }

  @Test("a head and content in progress may complete before the timeout", .realSeconds, arguments: Variant.all)
  func halfSent(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let head = try server.connect()
    try head.send("GET /hello HTTP/1.1\r\n")
    let body = try server.connect()
    try body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
    server.waitForConnections(2) { $0.request != nil }
    let drained = DispatchGroup()
    DispatchQueue(label: "drain").async(group: drained) { server.server.drain(timeout: .seconds(1000)) }
    wait(for: "the server's last stage") { server.workers { $0.stage == .closing } == [true] }
    try head.send("Host: a\r\n\r\n")
    try body.send("llo")
    for (client, text) in [(head, "hello"), (body, "hello")] {
      let response = try #require(try client.response())
      #expect(response.text == text)
      #expect(response.isLast)
      #expect(try client.response() == nil)
    }
    drained.wait(for: "the end of the drain")
  }

  @Test("an incomplete head or content gets 503 after the timeout", arguments: Variant.all)
  func timeout(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let head = try server.connect()
    try head.send("GET /hello HTTP/1.1\r\n")
    let body = try server.connect()
    try body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
    server.waitForConnections(2) { $0.request != nil }
    let drained = DispatchGroup()
    DispatchQueue(label: "drain").async(group: drained) { server.server.drain(timeout: .milliseconds(10)) }
    for client in [head, body] {
      let response = try #require(try client.response())
      #expect(response.status == 503)
      #expect(response.isLast)
      #expect(response["retry-after"] == "1")
      try expectError(response, code: "draining")
      #expect(try client.response() == nil)
      client.finishSending()
    }
    drained.wait(for: "the end of the drain")
    #expect(server.connections == 0)
  }

  @Test(
    "over HTTP/2, requests without a response get 503 after the timeout, and a GOAWAY follows", .realSeconds,
    arguments: IOLoop.PollerKind.allCases)
  func timeoutOfStreams(_ kind: IOLoop.PollerKind) throws {
    var limits = ServerLimits()
    // The client need not send the rest of its content: the stream is reset soon after its response.
    limits.idle = .seconds(1)
    let begun = Signal<Void>()
    let router = Router([
      Route(below: "/slow/") { _ in
        .deferred(
          DeferredWork { _ in
            begun.send(())
            _ = await Signal<Void>().next()
            return Response(.ok)
          })
      },
      Route("/echo", [.post(bodyLimit: 16) { _ in .read { .immediate(Response(.ok, body: $0)) } }]),
    ])
    let server = try TestServer(
      Variant(poller: kind, isTLS: false), limits: limits, router: router, speaksHTTP2: true)
    let client = try RawClient(port: server.port)
    try client.send(
      WireFrame.preface + WireFrame.post("/echo", stream: 1) + WireFrame.get("/slow/x", stream: 3))
    try begun.wait()
    server.server.drain(timeout: .milliseconds(10))
    #expect(server.recorder.statuses == [503, 503])
    let frames = WireFrame.all(in: try client.restUndecrypted())
    for stream in [1, 3] as [UInt8] {
      #expect(frames.contains { $0.stream == stream && $0.type == WireFrame.headers })
      #expect(frames.contains { $0.stream == stream && $0.type == WireFrame.data && $0.flags & 1 == 1 })
    }
    #expect(frames.last { $0.type == WireFrame.goAway }?.content.starts(with: [0, 0, 0, 3]) == true)
  }

  @Test("ten drains under load lose no request", .realSeconds, arguments: Variant.plain + Variant.tls.prefix(1))
  func underLoad(_ variant: Variant) throws {
    for _ in 0..<10 {
      // The clients' threads may be suspended for longer than a packet takes on loopback.
      let server = try TestServer(variant, loops: 2, roundTrip: .milliseconds(100))
      let load = Load(server, get: Self.get)
      load.start(keepAlive: 4, fresh: 2)
      try load.waitForResponses(200)
      server.server.drain(timeout: .seconds(1000))
      #expect(server.connections == 0)
      load.join()
      #expect(load.lost == [])
    }
  }
}

/// Clients that send requests until the server accepts no more connections.
private final class Load: Sendable {
  private let server: TestServer
  private let get: String
  private let threads = DispatchGroup()
  private let state = Locked(State())
  /// Signaled for each response.
  private let progress = DispatchSemaphore(value: 0)

  private struct State {
    var responses = 0
    var lost: [String] = []
  }

  init(_ server: TestServer, get: String) { (self.server, self.get) = (server, get) }

  /// The errors of clients that got no good response to a request.
  var lost: [String] { state.withLock { $0.lost } }

  func start(keepAlive: Int, fresh: Int) {
    for number in 0..<keepAlive + fresh {
      DispatchQueue(label: "client.\(number)").async(group: threads) { self.run(isFresh: number >= keepAlive) }
    }
  }

  func join() { threads.wait(for: "the end of all clients") }

  /// Waits for `count` responses. Fewer within a minute fail the test.
  func waitForResponses(_ count: Int) throws {
    let end = DispatchTime.now() + 60
    while state.withLock({ $0.responses }) < count {
      guard progress.wait(timeout: end) == .success else {
        throw TestFailure("Fewer than \(count) responses came within 60 s.")
      }
    }
  }

  private func run(isFresh: Bool) {
    // A connection request that a closing server drops fails early.
    while let client = try? server.connect(connectPatience: 100) {
      var isLast = isFresh
      repeat {
        do {
          try client.send(get)
          guard let response = try client.response() else { throw TestFailure("closed without a response") }
          isLast = isLast || response.isLast
          note(response.status == 200 ? nil : "\(response.status)")
        } catch {
          note("\(error)")
          isLast = true
        }
      } while !isLast
    }
  }

  private func note(_ loss: String?) {
    state.withLock { state in
      state.responses += 1
      if let loss { state.lost.append(loss) }
    }
    progress.signal()
  }
}
