import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPTypes
import Memory
import TestSupport
import Testing

@testable import HTTPServer

/// How the work of a handler runs.
enum WorkForm: CaseIterable {
  case task, call

  func work(_ perform: @escaping @Sendable (RequestContext) async -> Response) -> DeferredWork {
    switch self {
    case .task: DeferredWork(perform: perform)
    case .call:
      DeferredWork { context, respond in
        Task(executorPreference: context.loop) { respond(await perform(context)) }
      }
    }
  }
}

/// Handlers that must wait before they respond.
@Suite struct WorkTests {
  private static let get = "GET /tasks/x HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let hello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

  private static func router(
    _ form: WorkForm, _ work: @escaping @Sendable (RequestContext) async -> Response
  ) -> Router {
    Router([
      Route(below: "/tasks/") { request in
        request.method == .options ? .immediate(Response(.noContent)) : .deferred(form.work(work))
      },
      Route("/hello", [.get { _ in Response(.ok, body: Array("hello".utf8)) }]),
    ])
  }

  @Test(
    "a request that waits blocks no other connection, and is answered in its turn", arguments: Variant.all,
    WorkForm.allCases)
  func waiting(_ variant: Variant, _ form: WorkForm) throws {
    let begun = Signal<Void>()
    let responses = Signal<String>()
    let server = try TestServer(
      variant,
      router: Self.router(form) { _ in
        begun.send(())
        return Response(.ok, body: Array((await responses.next() ?? "").utf8))
      })
    let client = try server.connect()
    try client.send(Self.get + Self.hello + Self.get)
    try begun.wait()
    #expect(try server.responses(to: "GET /hello HTTP/1.0\r\n\r\n").map(\.text) == ["hello"])
    responses.send("first")
    #expect(try client.response()?.text == "first")
    #expect(try client.response()?.text == "hello")
    try begun.wait()
    responses.send("second")
    #expect(try client.response()?.text == "second")
    #expect(server.recorder.routes.contains("/tasks/"))
    // The beginning of the path, also of a request whose head is dropped while it waits.
    #expect(server.recorder.paths == ["/hello", "/tasks/x", "/hello", "/tasks/x"])
  }

  @Test(
    "a long response that had to wait comes before that to the next request, whatever it is",
    arguments: Variant.all, WorkForm.allCases)
  func longBeforeNext(_ variant: Variant, _ form: WorkForm) throws {
    let long = String(repeating: "a", count: 3 * Connection.leastShared)
    let router = Router([
      Route(below: "/tasks/") { _ in .deferred(form.work { _ in Response(.ok, body: Array(long.utf8)) }) },
      Route("/hello", [.get { _ in Response(.ok, body: Array("hello".utf8)) }]),
      Route("/long", [.get { _ in Response(.ok, body: Array(long.reversed().map { _ in UInt8(ascii: "b") })) }]),
    ])
    let memory = MemoryBudget(limit: 1 << 24)
    let server = try TestServer(variant, router: router, memory: memory)
    for (next, text) in [
      (Self.hello, "hello"), ("GET /long HTTP/1.1\r\nHost: a\r\n\r\n", String(repeating: "b", count: long.count)),
      ("garbage\r\n\r\n", nil),
    ] {
      let client = try server.connect()
      try client.send(Self.get + next)
      #expect(try client.response()?.text == long)
      let response = try client.response()
      if let text { #expect(response?.text == text) } else { #expect(response?.status == 400) }
    }
  }

  @Test(
    "work is cancelled when its client disconnects, even with a pipelined request",
    arguments: Variant.all, WorkForm.allCases)
  func clientGone(_ variant: Variant, _ form: WorkForm) throws {
    for behind in ["", Self.hello] { try clientGone(variant, form, behind) }
  }

  private func clientGone(_ variant: Variant, _ form: WorkForm, _ behind: String) throws {
    let begun = Signal<Void>()
    let ended = Signal<Bool>()
    let server = try TestServer(
      variant,
      router: Self.router(form) { _ in
        begun.send(())
        let value: Void? = await Signal<Void>().next()
        ended.send(value == nil && Task.isCancelled)
        return Response(.ok)
      })
    do {
      let client = try server.connect()
      try client.send(Self.get)
      try begun.wait()
      try client.send(behind)
      client.finishSending()
    }
    #expect(try ended.wait())
    #expect(try server.responses(to: "GET /hello HTTP/1.0\r\n\r\n").map(\.text) == ["hello"])
    #expect(server.recorder.statuses == [499, 200])
    #expect(server.workers { $0.connections.count }.allSatisfy { $0 == 0 })
  }

  @Test(
    "content reaches the handler in parts as it arrives, in either framing", arguments: Variant.all, WorkForm.allCases)
  func content(_ variant: Variant, _ form: WorkForm) throws {
    let parts = Signal<String>()
    let server = try TestServer(
      variant,
      router: Self.router(form) { context in
        var count = 0
        while let part = try? await context.content?.read() {
          count += part.count
          parts.send(String(decoding: part, as: UTF8.self))
        }
        return Response(.ok, body: Array("\(count) of \(context.contentLength.map { "\($0)" } ?? "unknown")".utf8))
      })
    let client = try server.connect()
    try client.send("POST /tasks/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
    #expect(try parts.wait() == "abc")
    try client.send("def" + Self.hello)
    #expect(try client.response()?.text == "6 of 6")
    #expect(try client.response()?.text == "hello")
    #expect(try parts.wait() == "def")
    try client.send("PUT /tasks/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
    #expect(try parts.wait() == "ab")
    try client.send("1\r\nc\r\n0\r\n\r\n")
    #expect(try client.response()?.text == "3 of unknown")
    try client.send("PATCH /tasks/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
    #expect(try client.response()?.status == 100)
    try client.send("x")
    #expect(try client.response()?.text == "1 of 1")
    try client.send("DELETE /tasks/x HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try client.response()?.text == "0 of 0")
  }

  @Test(
    "content breaks off for the handler when the client disconnects or sends a malformed chunk", arguments: Variant.all,
    WorkForm.allCases)
  func contentCut(_ variant: Variant, _ form: WorkForm) throws {
    let begun = Signal<Void>()
    let failures = Signal<ContentError?>()
    let server = try TestServer(
      variant,
      router: Self.router(form) { context in
        begun.send(())
        do throws(ContentError) {
          while try await context.content?.read() != nil {}
          failures.send(nil)
        } catch { failures.send(error) }
        return Response(.ok)
      })
    do {
      let client = try server.connect()
      try client.send("POST /tasks/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
      client.finishSending()
      try begun.wait()
      #expect(try failures.wait() == .broken("The client closed the connection."))
    }
    let client = try server.connect()
    try client.send("POST /tasks/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    try begun.wait()
    try client.send("zz\r\n")
    #expect(try client.response()?.status == 400)
    #expect(try client.response() == nil)
    guard case .broken = try failures.wait() else { throw TestFailure("The handler was told nothing.") }
  }

  @Test(
    "the server discards short content that a handler leaves unread, and closes the connection after long content",
    arguments: Variant.all, WorkForm.allCases)
  func unreadContent(_ variant: Variant, _ form: WorkForm) throws {
    let server = try TestServer(variant, router: Self.router(form) { _ in Response(.ok) })
    let client = try server.connect()
    try client.send("POST /tasks/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef" + Self.hello)
    #expect(try client.response()?.status == 200)
    #expect(try client.response()?.text == "hello")
    try client.send("POST /tasks/x HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n")
    #expect(try client.response()?.isLast == true)
  }

  @Test(
    "partly read content closes the connection, and its rest is not read as a request", arguments: Variant.all,
    WorkForm.allCases)
  func halfReadContent(_ variant: Variant, _ form: WorkForm) throws {
    let server = try TestServer(
      variant,
      router: Self.router(form) { context in
        _ = try? await context.content?.read()
        return Response(.ok)
      })
    let client = try server.connect()
    try client.send("POST /tasks/x HTTP/1.1\r\nHost: a\r\nContent-Length: \(3 + Self.hello.utf8.count)\r\n\r\nabc")
    #expect(try client.response()?.isLast == true)
    try client.send(Self.hello + Self.hello)
    #expect(try client.response() == nil)
    #expect(server.recorder.statuses == [200])
  }

  @Test(
    "a read after the response is cancelled, and the connection keeps its deadline", .realSeconds,
    arguments: Variant.all,
    WorkForm.allCases)
  func readAfterResponse(_ variant: Variant, _ form: WorkForm) throws {
    let goesOn = Signal<Void>()
    let endings = Signal<ContentError?>()
    let server = try TestServer(
      variant, limits: Self.limits { $0.linger = .milliseconds(500) },
      router: Self.router(form) { context in
        let isBegun = Signal<Void>()
        // Like an upload whose upstream responds before the upload is complete.
        Task(executorPreference: context.loop) {
          _ = try? await context.content?.read()
          isBegun.send(())
          _ = await goesOn.next()
          do throws(ContentError) {
            _ = try await context.content?.read()
            endings.send(nil)
          } catch { endings.send(error) }
        }
        _ = await isBegun.next()
        return Response(.ok)
      })
    let client = try server.connect()
    try client.send("POST /tasks/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
    #expect(try client.response()?.isLast == true)
    goesOn.send(())
    #expect(try endings.wait() == .cancelled)
    // The client neither sends nor closes.
    server.waitForConnections(0)
    #expect(try client.response() == nil)
  }

  @Test(
    "work that takes too long is cancelled, and its client gets an error", arguments: Variant.all, WorkForm.allCases)
  func tooLong(_ variant: Variant, _ form: WorkForm) throws {
    let server = try TestServer(
      variant, limits: Self.limits { $0.work = .milliseconds(50) },
      router: Self.router(form) { _ in Response(await Signal<Void>().next() == nil ? .ok : .accepted) })
    let client = try server.connect()
    try client.send(Self.get)
    let response = try #require(try client.response())
    try expectError(response, code: "upstream_timeout")
    #expect(response.isLast)
    #expect(try client.response() == nil)
  }

  @Test(
    "a handler that continues after its cancellation does not keep the connection open", arguments: Variant.all,
    WorkForm.allCases)
  func stubborn(_ variant: Variant, _ form: WorkForm) throws {
    let begun = Signal<Void>()
    let released = Signal<Void>()
    let server = try TestServer(
      variant, limits: Self.limits { $0.cancelledWork = .milliseconds(50) },
      router: Self.router(form) { context in
        begun.send(())
        // Cancelling a task does not cancel a task that it waits for.
        _ = await Task(executorPreference: context.loop) { await released.next() }.value
        return Response(.ok)
      })
    do {
      let client = try server.connect()
      try client.send(Self.get)
      try begun.wait()
      client.finishSending()
      server.waitForConnections(0)
    }
    released.send(())
    #expect(try server.responses(to: "GET /hello HTTP/1.0\r\n\r\n").map(\.text) == ["hello"])
    wait(for: "two recorded responses") { server.recorder.statuses.count >= 2 }
    #expect(server.recorder.statuses.sorted() == [200, 499])
  }

  private static func limits(_ change: (inout ServerLimits) -> Void) -> ServerLimits {
    var limits = ServerLimits()
    change(&limits)
    return limits
  }

  @Test(
    "a server that drains refuses work in progress after its timeout", .realSeconds, arguments: Variant.all,
    WorkForm.allCases)
  func drain(_ variant: Variant, _ form: WorkForm) throws {
    let begun = Signal<Void>()
    let server = try TestServer(
      variant,
      router: Self.router(form) { _ in
        begun.send(())
        return Response(await Signal<Void>().next() == nil ? .ok : .accepted)
      })
    let client = try server.connect()
    try client.send(Self.get)
    try begun.wait()
    server.server.drain(timeout: .zero)
    let response = try #require(try client.response())
    #expect(response.status == 503)
    try expectError(response, code: "draining")
    #expect(try client.response() == nil)
  }
}
