import EventLoop
import HTTPMessages
import HTTPTypes
import Memory
import TestSupport
import Testing

@testable import HTTPServer

/// Responses whose content arrives in parts.
@Suite struct StreamTests {
  private static let hello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

  /// Streams `content`; the query may contain its length.
  private static func router(_ content: TestContent) -> Router {
    Router([
      Route(below: "/stream/") { request in
        var response = Response(.ok)
        response.stream = content
        response.streamLength = request.query.flatMap { Int(String(decoding: $0, as: UTF8.self)) }
        return .immediate(response)
      },
      Route("/hello", [.get { _ in Response(.ok, body: Array("hello".utf8)) }]),
      Route("/task", [.get(reply: { _ in .deferred(DeferredWork { _ in Response(.ok) }) })]),
      Route("/call", [.get(reply: { _ in .deferred(DeferredWork(begin: Self.respondAtOnce)) })]),
      Route("/large", [.get { _ in Response(.ok, body: [UInt8](repeating: UInt8(ascii: "x"), count: 8000)) }]),
    ])
  }

  private static let respondAtOnce: DeferredWork.Begin = { _, respond in
    respond(Response(.ok))
    return nil
  }

  @Test("parts are sent when they arrive, in chunks if the length is unknown", arguments: Variant.all)
  func chunked(_ variant: Variant) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    let client = try server.connect()
    try client.send("GET /stream/x HTTP/1.1\r\nHost: a\r\n\r\n" + Self.hello.replacing("HTTP/1.1", with: "HTTP/1.0"))
    content.send("hello ")
    #expect(try client.text(until: "6\r\nhello \r\n").contains("Transfer-Encoding: chunked\r\n"))
    content.send("world, this is a part of its own")
    #expect(try client.text(until: "20\r\nworld, this is a part of its own\r\n") != "")
    content.send("")
    #expect(try String(decoding: client.rest(), as: UTF8.self).hasPrefix("0\r\n\r\nHTTP/1.1 200 OK\r\n"))
  }

  @Test("a known length is sent as Content-Length, and the connection stays open", arguments: Variant.all)
  func length(_ variant: Variant) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    let client = try server.connect()
    for part in ["hello", "", "again", ""] { content.send(part) }
    try client.send("GET /stream/x?5 HTTP/1.1\r\nHost: a\r\n\r\n" + Self.hello)
    #expect(try client.response()?.text == "hello")
    #expect(try client.response()?.text == "hello")
    try client.send("GET /stream/x?5 HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try client.response()?.text == "again")
    try client.send("HEAD /stream/x?5 HTTP/1.1\r\nHost: a\r\n\r\n")
    let head = try #require(try client.response(isHead: true))
    #expect(head["content-length"] == "5")
    try content.cancelled.wait()
    try client.send(Self.hello)
    #expect(try client.response()?.text == "hello")
    #expect(server.recorder.statuses == [200, 200, 200, 200, 200])
  }

  @Test("for HTTP/1.0, the end of the connection ends content of unknown length", arguments: Variant.all)
  func untilClose(_ variant: Variant) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    let client = try server.connect()
    for part in ["hello ", "world", ""] { content.send(part) }
    try client.send("GET /stream/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    let text = try String(decoding: client.rest(), as: UTF8.self)
    #expect(text.hasSuffix("\r\n\r\nhello world"))
    #expect(text.contains("Connection: close\r\n"))
    #expect(!text.contains("Transfer-Encoding"))
  }

  @Test(
    "content that breaks off or has a wrong length never looks complete",
    arguments: Variant.all, ["broken", "long", "short", "HTTP/1.0"])
  func brokenOff(_ variant: Variant, _ fault: String) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    let client = try server.connect()
    content.send("abc")
    switch fault {
    case "long": content.send("def")
    case "short": content.send("")
    default: content.parts.send(.failure(.broken("upstream")))
    }
    let target = ["long", "short"].contains(fault) ? "/stream/x?4" : "/stream/x"
    try client.send("GET \(target) HTTP/1.\(fault == "HTTP/1.0" ? 0 : 1)\r\nHost: a\r\n\r\n" + Self.hello)
    // The reset may overtake bytes that were sent before.
    let received = try client.restUndecrypted()
    #expect(!String(decoding: received, as: UTF8.self).contains("\r\n0\r\n\r\n"))
    #expect(!client.wasClosedByTLS)
    try content.cancelled.wait()
    #expect(server.recorder.statuses == [200])
  }

  @Test("content is cancelled when the client disconnects during a wait for the next part", arguments: Variant.all)
  func clientGone(_ variant: Variant) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    let client = try server.connect()
    try client.send("GET /stream/x HTTP/1.1\r\nHost: a\r\n\r\n")
    content.send("hello")
    #expect(try client.text(until: "hello\r\n").hasSuffix("\r\nhello\r\n"))
    client.finishSending()
    try content.cancelled.wait()
    server.waitForConnections(0)
  }

  @Test(
    "a request is recorded, and its content cancelled, if the client leaves before it has taken earlier responses",
    arguments: Variant.all, ["stream/x", "task", "call"])
  func clientGoneEarly(_ variant: Variant, _ target: String) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    var client: RawClient? = try server.connect(receiveBuffer: 4096)
    // So many that they fill the socket, which then holds back one of the large responses.
    let pairs = 2000
    for _ in 0..<pairs { for part in ["hello", ""] { content.send(part) } }
    let pair = ["large", target].map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined()
    try client?.send(String(repeating: pair, count: pairs))
    server.waitForConnections(1) { $0.transport.isPending }
    client = nil
    server.waitForConnections(0)
    if target == "stream/x" { try content.cancelled.wait() }
    let responses = server.recorder.statuses.count
    #expect(responses.isMultiple(of: 2) && responses < 2 * pairs)
  }

  @Test("after the drain's timeout, the server adds nothing to a response that has begun", arguments: Variant.plain)
  func drain(_ variant: Variant) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    let client = try server.connect()
    try client.send("GET /stream/x?1000 HTTP/1.1\r\nHost: a\r\n\r\n")
    content.send("hello")
    _ = try client.text(until: "hello")
    server.server.drain(timeout: .zero)
    try content.cancelled.wait()
    #expect(try client.restUndecrypted() == [])
    #expect(server.recorder.statuses == [200])
  }

  @Test("the work behind a response is charged until its last part", arguments: [false, true])
  func charge(isHTTP2: Bool) throws {
    let content = TestContent()
    let router = Router([
      Route(below: "/") { _ in
        .deferred(
          DeferredWork { _ in
            var response = Response(.ok)
            response.stream = content
            return response
          })
      }
    ])
    let memory = MemoryBudget(limit: 1 << 30)
    let server = try TestServer(
      Variant(poller: .epoll, isTLS: false), router: router, speaksHTTP2: isHTTP2, memory: memory)
    let client = try server.connect()
    try client.send(
      isHTTP2 ? WireFrame.preface + WireFrame.get("/x", stream: 1) : Array("GET /x HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
    wait(for: "the first part") { content.reads.value == 1 }
    let charged = memory.used
    content.send("")
    wait(for: "the release of the memory") { memory.used <= charged - Connection.Cost.work }
  }

  @Test("the server reads no further content for a client that does not read", arguments: Variant.all)
  func backPressure(_ variant: Variant) throws {
    let content = TestContent()
    let server = try TestServer(variant, router: Self.router(content))
    let client = try server.connect(receiveBuffer: 4096)
    let part = [UInt8](repeating: UInt8(ascii: "x"), count: 1_000_000)
    for _ in 0..<10 { content.parts.send(.success(part)) }
    content.send("")
    try client.send("GET /stream/x HTTP/1.0\r\n\r\n")
    let head = try client.text(until: "\r\n\r\n")
    // Another response on the same loop: the loop is not busy with the first response.
    #expect(try server.responses(to: Self.hello.replacing("HTTP/1.1", with: "HTTP/1.0")).map(\.text) == ["hello"])
    #expect(content.reads.value <= 2)
    #expect(head.contains("Connection: close"))
    #expect(try client.rest().count == 10_000_000)
    #expect(content.reads.value == 11)
  }
}
