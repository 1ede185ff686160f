import Dispatch
import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes
import Memory
import TestSupport
import Testing

@testable import HTTPServer

/// HTTP/2 on a server that speaks HTTP/2, with curl as the client.
@Suite struct HTTP2ConnectionTests {
  private static func server(
    _ kind: IOLoop.PollerKind, _ router: Router = .test, memory: MemoryBudget = .unlimited()
  ) throws -> TestServer {
    try TestServer(Variant(poller: kind, isTLS: false), router: router, speaksHTTP2: true, memory: memory)
  }

  /// The output and the exit status of curl.
  private static func curl(_ server: TestServer, _ path: String, _ options: String...) throws -> ProcessResult {
    try run(
      "curl",
      ["--silent", "--globoff", "--http2-prior-knowledge", "--max-time", "60"] + options + [
        "http://127.0.0.1:\(server.port)\(path)"
      ])
  }

  @Test(
    "HTTP/2 requests get the same responses as HTTP/1.1 requests", .otherPrograms, arguments: IOLoop.PollerKind.allCases
  )
  func responses(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    #expect(try Self.curl(server, "/hello").stdout == "hello")
    #expect(try Self.curl(server, "/echo?a=b").stdout == "a=b")
    #expect(try Self.curl(server, "/echo", "--data", "content").stdout == "content")
    let head = try Self.curl(server, "/hello", "--head").stdout
    #expect(head.hasPrefix("HTTP/2 200"))
    #expect(head.contains("content-length: 5\r\n"))
    #expect(head.contains("x-request-id: "))
    let statuses = [("/nowhere", "404"), ("/hello/%zz", "400")]
    for (path, status) in statuses {
      #expect(try Self.curl(server, path, "--output", "/dev/null", "--write-out", "%{http_code}").stdout == status)
    }
    #expect(try Self.curl(server, "/hello", "-X", "POST", "--write-out", "%{http_code}").stdout.hasSuffix("405"))
    let long = String(repeating: "x", count: 100_001)
    #expect(try Self.curl(server, "/echo", "--data", long, "--write-out", "%{http_code}").stdout.hasSuffix("413"))
    #expect(server.recorder.statuses.contains(405))
  }

  @Test("a long response arrives complete", .otherPrograms, arguments: IOLoop.PollerKind.allCases)
  func long(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let result = try Self.curl(server, "/large")
    #expect(result.status == 0)
    #expect(result.standardOutput == Router.large)
  }

  @Test("received content of HTTP/2 is charged with the room that its array takes", arguments: ["/read", "/held/"])
  func contentOfStreams(_ path: String) throws {
    let go = Signal<Void>()
    let work = DeferredWork { _ in Response(await go.next() == nil ? .internalServerError : .ok) }
    let router = Router([
      Route("/read", [.post(bodyLimit: 100_000) { _ in .read { _ in .deferred(work) } }]),
      Route(below: "/held/") { _ in .deferred(work) },
    ])
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), router: router, speaksHTTP2: true)
    let client = try RawClient(port: server.port)
    try client.send(WireFrame.preface + WireFrame.post(path, stream: 1))
    let part = [UInt8](repeating: 0, count: 1024)
    for number in 1...9 {
      try client.send(WireFrame(type: WireFrame.data, stream: 1, content: part).bytes())
      // One after another, so that the array doubles four times.
      server.waitForConnections(1) { $0.http2?.contentBytes ?? 0 >= number * 1024 }
    }
    let charged = server.workers { $0.connections.map { $0.http2?.contentBytes ?? 0 } }.joined()
    #expect(charged.allSatisfy { $0 >= 16_000 }, "\(Array(charged))")
    try client.send(WireFrame(type: WireFrame.data, flags: 1, stream: 1, content: part).bytes())
    go.send(())
    server.waitForConnections(1) { $0.http2?.isIdle == true && $0.http2?.contentBytes == 0 }
  }

  @Test("work reads request content and streams its response", .otherPrograms, arguments: IOLoop.PollerKind.allCases)
  func streams(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(
      kind,
      Router([
        Route(below: "/") { request in
          let isBroken = request.query != nil
          return .deferred(
            DeferredWork { context in
              var count = 0
              while let part = try? await context.content?.read() { count += part.count }
              let content = TestContent()
              content.send("\(count) bytes")
              content.parts.send(isBroken ? .failure(.broken("")) : .success([]))
              var response = Response(.ok)
              response.stream = content
              return response
            })
        }
      ]))
    let directory = try TemporaryDirectory()
    let file = try directory.write(String(repeating: "x", count: 3_000_000), to: "content")
    #expect(try Self.curl(server, "/x", "--data-binary", "@\(file)").stdout == "3000000 bytes")
    #expect(try Self.curl(server, "/x").stdout == "0 bytes")
    // 92: the stream was not closed properly.
    #expect(try Self.curl(server, "/x?broken").status == 92)
  }

  @Test(
    "the server serves HTTP/1.1 on the same port, wherever the first bytes are split",
    arguments: IOLoop.PollerKind.allCases)
  func both(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    #expect(try server.responses(to: "GET /hello HTTP/1.0\r\n\r\n").map(\.text) == ["hello"])
    let client = try server.connect()
    try client.send("P")
    try client.send("RI * HTTP/2.0\r\n\r\nXM\r\n\r\n")
    #expect(try client.response()?.status == 505)
    let other = try TestServer(Variant(poller: kind, isTLS: false))
    #expect(try other.responses(to: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").map(\.status) == [505])
  }

  @Test(
    "content that a client holds back is asked for, unless the response needs none", .otherPrograms,
    arguments: IOLoop.PollerKind.allCases)
  func expectation(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(
      kind,
      Router([
        Route(below: "/slow/") { _ in
          .deferred(
            DeferredWork { context in
              Response(.ok, body: Array("\((try? await context.content?.read())?.count ?? 0) bytes".utf8))
            })
        },
        Route("/echo", [.post(bodyLimit: 16) { _ in .read { .immediate(Response(.ok, body: $0)) } }]),
      ]))
    // curl sends the content only after a 100.
    func answer(_ path: String, _ content: String, _ more: String...) throws -> String {
      let options = ["-H", "Expect: 100-continue", "--expect100-timeout", "600", "-d", content, "-w", " %{http_code}"]
      return try run(
        "curl",
        ["--silent", "--http2-prior-knowledge", "--max-time", "60"] + options + more + [
          "http://127.0.0.1:\(server.port)\(path)"
        ]
      ).stdout
    }
    #expect(try answer("/echo", "hello") == "hello 200")
    #expect(try answer("/slow/x", "hello") == "5 bytes 200")
    #expect(try answer("/echo", "longer than sixteen bytes").hasSuffix(" 413"))
  }

  @Test("a request that waits has no task", .otherPrograms, arguments: IOLoop.PollerKind.allCases)
  func taskless(_ kind: IOLoop.PollerKind) throws {
    let work = DeferredWork { context, respond in
      let isTaskless = unsafe withUnsafeCurrentTask { unsafe $0 == nil }
      context.loop.atEndOfTurn { respond(Response(.ok, body: Array("\(isTaskless)".utf8))) }
      return nil
    }
    let server = try Self.server(
      kind,
      Router([
        Route("/content", [.post(bodyLimit: 10_000) { _ in .read { _ in .deferred(work) } }]),
        Route(below: "/") { _ in .deferred(work) },
      ]))
    #expect(try Self.curl(server, "/x").stdout == "true")
    #expect(try Self.curl(server, "/x", "--data", "content").stdout == "true")
    #expect(try Self.curl(server, "/content", "--data", "content").stdout == "true")
    #expect(try Self.curl(server, "/content", "--data", "").stdout == "true")
    let long = String(repeating: "x", count: 10_001)
    #expect(try Self.curl(server, "/content", "--data", long, "--write-out", "%{http_code}").stdout.hasSuffix("413"))
    let held = server.workers { $0.connections.map { $0.http2?.contentBytes ?? 0 } }
    #expect(held.joined().allSatisfy { $0 == 0 })
  }

  @Test(
    "work that takes too long is cancelled, and its client gets an error", .otherPrograms, arguments: WorkForm.allCases)
  func tooLong(_ form: WorkForm) throws {
    var limits = ServerLimits()
    limits.work = .milliseconds(50)
    let router = Router([
      Route(below: "/") { _ in
        .deferred(form.work { _ in Response(await Signal<Void>().next() == nil ? .accepted : .ok) })
      }
    ])
    let server = try TestServer(
      Variant(poller: .epoll, isTLS: false), limits: limits, router: router, speaksHTTP2: true)
    #expect(try Self.curl(server, "/x", "--write-out", "%{http_code}").stdout.hasSuffix("504"))
    #expect(server.recorder.statuses == [504])
  }

  @Test(
    "work is cancelled, and its memory released, when its client disconnects",
    arguments: IOLoop.PollerKind.allCases, WorkForm.allCases)
  func clientGone(_ kind: IOLoop.PollerKind, _ form: WorkForm) throws {
    let (begun, ended) = (Signal<Void>(), Signal<Bool>())
    let memory = MemoryBudget(limit: 1 << 30)
    let server = try Self.server(
      kind,
      Router([
        Route(below: "/") { _ in
          .deferred(
            form.work { _ in
              begun.send(())
              let value: Void? = await Signal<Void>().next()
              ended.send(value == nil && Task.isCancelled)
              return Response(.ok)
            })
        }
      ]), memory: memory)
    try Self.disconnect(server) { _ in try begun.wait() }
    #expect(try ended.wait())
    wait(for: "the record") { server.recorder.statuses == [499] }
    server.waitForConnections(0)
    wait(for: "the release of the memory") { memory.used == 0 }
  }

  /// Sends a request, and disconnects after `wait`.
  private static func disconnect(_ server: TestServer, after wait: (RawClient) throws -> Void) throws {
    let client = try RawClient(port: server.port)
    try client.send(WireFrame.preface + WireFrame.get("/x", stream: 1))
    try wait(client)
  }

  @Test("a response that its client cuts short is recorded once", arguments: IOLoop.PollerKind.allCases)
  func cutShort(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(
      kind,
      Router([
        Route(below: "/") { _ in
          .deferred(
            DeferredWork { _ in
              let content = TestContent()
              content.send("begun")
              var response = Response(.ok)
              response.stream = content
              return response
            })
        }
      ]))
    try Self.disconnect(server) { _ = try $0.text(until: "begun") }
    wait(for: "the record") { server.recorder.statuses == [200] }
    server.waitForConnections(0)
    #expect(server.recorder.statuses == [200])
  }

  @Test(
    "a request that is reset in the bytes that bring it, and a malformed one, are recorded",
    arguments: IOLoop.PollerKind.allCases)
  func lost(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let client = try server.connect()
    // HEADERS of GET http://a/hello (RFC 7541 §6) on a stream.
    func get(_ stream: UInt8, _ more: [UInt8] = []) -> [UInt8] {
      let fields: [UInt8] = [0x82, 0x86, 4, 6] + Array("/hello".utf8) + [1, 1, 0x61] + more
      return [0, 0, UInt8(fields.count), 1, 5, 0, 0, 0, stream] + fields
    }
    // The preface, SETTINGS, and RST_STREAM with CANCEL behind the request.
    let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
    try client.send(preface + get(1) + [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8])
    wait(for: "the record of the reset") { server.recorder.statuses == [499] }
    // A name in upper case (RFC 9113 §8.2.1).
    try client.send(get(3, [0, 1, UInt8(ascii: "X"), 1, 0x61]))
    wait(for: "the record of the malformed request") { server.recorder.statuses == [499, 400] }
    try client.send(get(5))
    wait(for: "the response") { server.recorder.statuses == [499, 400, 200] }
  }

  @Test(
    "a request is recorded also if its client resets it before its content, or accepts no head of a response",
    arguments: IOLoop.PollerKind.allCases)
  func unanswered(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let client = try server.connect()
    try client.send(WireFrame.preface + WireFrame.post("/echo", stream: 1))
    wait(for: "the head arrives") { server.workers { $0.connections.contains { $0.http2?.isIdle == false } } == [true] }
    try client.send(WireFrame(type: WireFrame.reset, stream: 1, content: [0, 0, 0, 8]).bytes())
    wait(for: "the record of the reset") { server.recorder.statuses == [499] }
    // SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113 §6.5.2).
    try client.send(WireFrame(type: 4, content: [0, 6, 0, 0, 0, 1]).bytes() + WireFrame.get("/hello", stream: 3))
    wait(for: "the record of the other") { server.recorder.statuses == [499, 499] }
  }

  @Test(
    "content that its client cuts short is never complete for its reader", arguments: IOLoop.PollerKind.allCases)
  func resetContent(_ kind: IOLoop.PollerKind) throws {
    let isClosed = Signal<Void>()
    let outcome = Signal<String>()
    let server = try Self.server(
      kind,
      Router([
        Route(below: "/") { _ in
          .deferred(
            DeferredWork { context in
              _ = await isClosed.next()
              do { outcome.send("\(try await context.content?.read()?.count ?? 0) bytes") } catch {
                outcome.send("broken")
              }
              return Response(.ok)
            })
        }
      ]))
    let client = try server.connect()
    let content = WireFrame(type: WireFrame.data, flags: 1, stream: 1, content: Array("hello".utf8)).bytes()
    try client.send(WireFrame.preface + WireFrame.post("/x", stream: 1) + content)
    wait(for: "the content arrives") {
      server.workers { $0.connections.contains { ($0.http2?.contentBytes ?? 0) >= 5 } } == [true]
    }
    try client.send(WireFrame(type: WireFrame.reset, stream: 1, content: [0, 0, 0, 8]).bytes())
    wait(for: "the stream ends") { server.workers { $0.connections.contains { $0.http2?.isIdle == true } } == [true] }
    isClosed.send(())
    #expect(try outcome.wait() == "broken")
  }

  @Test("no header section that the settings allow is too large to be refused with 431")
  func refusedSection() {
    var http1 = HTTP1Limits()
    #expect(HTTP2Limits(http1).refusedSection == 65_536)
    http1.headerSection = 1_048_576
    #expect(HTTP2Limits(http1).refusedSection > HTTP2Limits(http1).fieldSection)
  }

  @Test(
    "the server survives a client that disconnects within the content", .otherPrograms,
    arguments: IOLoop.PollerKind.allCases)
  func brokenContent(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    for _ in 0..<20 {
      try withExtendedLifetime(server.connect()) { client in
        try client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        // SETTINGS; HEADERS of POST http://a/echo (RFC 7541 §6); DATA without END_STREAM.
        try client.send([0, 0, 0, 4, 0, 0, 0, 0, 0])
        try client.send([0, 0, 12, 1, 4, 0, 0, 0, 1, 0x83, 0x86, 4, 5] + Array("/echo".utf8) + [1, 1, 0x61])
        try client.send([0, 0, 4, 0, 0, 0, 0, 0, 1] + Array("half".utf8))
        wait(for: "the content arrives") {
          server.workers { $0.connections.contains { ($0.http2?.contentBytes ?? 0) > 4 } }.contains(true)
        }
      }
      wait(for: "the connection ends") { server.connections == 0 }
    }
    #expect(try Self.curl(server, "/hello").stdout == "hello")
  }

  @Test(
    "a server that drains answers requests in flight and closes the connection", .otherPrograms,
    arguments: IOLoop.PollerKind.allCases)
  func drain(_ kind: IOLoop.PollerKind) throws {
    let begun = Signal<Void>()
    let responses = Signal<Void>()
    let server = try Self.server(
      kind,
      Router([
        Route(below: "/") { _ in
          .deferred(
            DeferredWork { _ in
              begun.send(())
              await responses.next()
              return Response(.ok, body: Array("late".utf8))
            })
        }
      ]))
    let port = server.port
    let output = Signal<Result<String, any Error>>()
    DispatchQueue(label: "client").async {
      output.send(
        Result { try run("curl", ["--silent", "--http2-prior-knowledge", "http://127.0.0.1:\(port)/x"]).stdout })
    }
    try begun.wait()
    responses.send(())
    server.server.drain(timeout: .seconds(60))
    #expect(server.workers { $0.connections.count }.allSatisfy { $0 == 0 })
    #expect(try output.wait().get() == "late")
  }

  @Test(
    "a server that drains sends GOAWAY twice, and answers a request that arrives in between", .realSeconds,
    arguments: IOLoop.PollerKind.allCases)
  func twoGoAways(_ kind: IOLoop.PollerKind) throws {
    let server = try Self.server(kind)
    let client = try RawClient(port: server.port)
    // The preface and empty settings; later GET /hello on stream 1 (RFC 9113 §3.4, §6.2, RFC 7541 appendix A).
    try client.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0])
    server.waitForConnections(1) { $0.http2 != nil }
    _ = server.workers { $0.drain(to: .closing) }
    let fields: [UInt8] = [0x82, 0x86, 0x04, 6] + Array("/hello".utf8) + [0x01, 1, 0x61]
    try client.send([0, 0, UInt8(fields.count), 1, 5, 0, 0, 0, 1] + fields)
    let frames = WireFrame.all(in: try client.restUndecrypted())
    let goodbyes = frames.filter { $0.type == 7 }
    #expect(goodbyes.map { Array($0.content.prefix(4)) } == [[0x7f, 0xff, 0xff, 0xff], [0, 0, 0, 1]])
    #expect(frames.filter { $0.type == 0 }.flatMap(\.content) == Array("hello".utf8))
    #expect(server.recorder.statuses == [200])
  }
}
