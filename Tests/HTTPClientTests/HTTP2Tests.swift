import Bytes
import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import Memory
import TestSupport
import Testing

@testable import HTTPClient

@Suite("Over HTTP/2, with Python's h2", .otherPrograms)
struct HTTP2Tests {
  @Test("requests and responses with content share one connection", arguments: [false, true])
  func exchanges(isTLS: Bool) throws {
    let client = try H2Upstream(isTLS: isTLS).client()
    let plain = try client.send(.get, "/a?b=[c]", fields: [.accept: "*/*", .te: "x"]).received()
    #expect(plain.status == 200)
    #expect(plain.text == "hello")
    #expect(plain.response.fields == [HTTPField.Name("x-path") ?? .accept: "/a"])
    let fields = try client.send(
      .get, "/sent", fields: [.accept: "*/*", .contentLength: "7"], credential: [.authorization: "Bearer a.b.c"]
    ).received().text
    #expect(fields.hasSuffix("\naccept: */*\nauthorization: Bearer a.b.c") && !fields.contains("content-length"))
    for size in [0, 1, 70_000, 300_000] {
      let content = (0..<size).map { UInt8(truncatingIfNeeded: $0 % 253) }
      let half = GivenContent(
        [Array(content.prefix(size / 2)), Array(content.dropFirst(size / 2))].filter { !$0.isEmpty })
      let length = size == 1 ? nil : size
      let echo = try client.send(.put, "/echo", content: half, contentLength: length).received()
      #expect(echo.content == content)
      #expect(echo.response.contentLength == size)
    }
    #expect(try client.send(.head).received().content == [])
    try client.wait { $0.counters.requestsOpen == 0 }
    let counters = client.client.counters
    #expect(counters.connectionsOpened == 1)
    #expect(counters.requestsSent == 7)
    #expect(counters.requestsOnReusedConnection == 6)
  }

  @Test("many concurrent requests share few connections, and wait when all are full")
  func streams() throws {
    let upstream = try H2Upstream(streams: 20)
    let client = try upstream.client { $0.limits.http2Connections = 3 }
    let held = (0..<100).map { _ in client.send(.get, "/hold") }
    try client.wait { $0.counters.requestsOpen == 60 && $0.counters.requestsWaiting == 40 }
    #expect(client.client.counters.connectionsOpened == 3)
    for call in held[..<10] { call.task.cancel() }
    try client.wait { $0.counters.requestsOpen == 60 && $0.counters.requestsWaiting == 30 }
    let other = try upstream.client()
    while client.client.counters.requestsOpen > 0 { #expect(try other.get("/release").status == 204) }
    for call in held[..<10] { #expect(try call.failure()?.cause == .cancelled) }
    for call in held[10...] { #expect(try call.received().text == "released") }
    #expect(client.client.counters.connectionsOpened == 3)
  }

  @Test("a caller that does not read blocks only its own stream")
  func backPressure() throws {
    let client = try H2Upstream().client()
    let stalled = client.send(.get, "/count?bytes=1000000")
    let response = try stalled.response()
    for _ in 0..<3 {
      let other = try client.get("/count?bytes=200000")
      #expect(other.content.count == 200_000)
      #expect(other.error == nil)
    }
    let buffered = try client.onLoop { _ in (response.content as? ReceivedContent)?.buffered ?? 0 }
    #expect((1...65_536).contains(buffered))
    let rest = try stalled.received()
    #expect(rest.content.count == 1_000_000)
    #expect(rest.content.enumerated().allSatisfy { $1 == UInt8($0 % 251) })
  }

  @Test(
    "content arrives ahead of its reader up to a limit, and as far as the memory budget grants it",
    arguments: [
      (1_000_000, nil, 1_000_000...1_000_000), (300_000, nil, 300_000...365_536), (1_000_000, 200_000, 1...265_536),
    ]
      as [(Int, Int?, ClosedRange<Int>)])
  func ahead(limit: Int, memory: Int?, expected: ClosedRange<Int>) throws {
    let budget = memory.map { MemoryBudget(limit: $0) } ?? .unlimited()
    let client = try H2Upstream().client { $0.memory = budget }
    let call = client.send(.get, "/count?bytes=1000000")
    let (response, ended) = (try call.response(), Locked(false))
    client.loop.performAndWait {
      response.content.arriveAhead(upTo: limit, chargedTo: 1) { _ in ended.withLock { $0 = true } }
    }
    func buffered() throws -> Int {
      try client.onLoop { _ in (response.content as? ReceivedContent)?.buffered ?? 0 }
    }
    try wait(for: "content ahead") { try expected.contains(buffered()) }
    for _ in 0..<3 { #expect(try client.get("/count?bytes=20000").content.count == 20_000) }
    #expect(try expected.contains(buffered()) && buffered() <= budget.held(by: 1))
    #expect(ended.withLock { $0 } == (expected.upperBound == 1_000_000))
    let rest = try call.received()
    #expect(rest.content.count == 1_000_000)
    #expect(rest.content.enumerated().allSatisfy { $1 == UInt8($0 % 251) })
    #expect(ended.withLock { $0 } && budget.held(by: 1) == 0)
  }

  @Test("a cancelled task resets its stream, before and after the response head")
  func cancelled() throws {
    let client = try H2Upstream().client()
    let held = client.send(.get, "/hold")
    try wait(for: "a request that the upstream holds") { try client.get("/held").text == "1" }
    held.task.cancel()
    #expect(try held.failure()?.cause == .cancelled)
    try wait(for: "the reset of the held request") { try client.get("/held").text == "0" }
    let large = client.send(.get, "/count?bytes=1000000")
    large.cancelContent(try large.response())
    #expect(try client.get().text == "hello")
    try client.wait { $0.counters.requestsOpen == 0 }
    #expect(client.client.counters.connectionsOpened == 1)
  }

  /// A path, and the cause and progress of the error.
  struct Failure: CustomTestStringConvertible, Sendable {
    let path: String
    let cause: UpstreamError.Cause
    let progress: UpstreamError.Progress
    var testDescription: String { path }
  }

  @Test(
    "an error has the progress of the request",
    arguments: [
      Failure(path: "/reset?code=7", cause: .connectionTerminated, progress: .unprocessed),
      Failure(path: "/reset?code=2", cause: .connectionTerminated, progress: .unanswered),
      Failure(path: "/abort", cause: .connectionTerminated, progress: .unanswered),
      Failure(path: "/goaway?after=0", cause: .connectionTerminated, progress: .unprocessed),
      Failure(path: "/fields?count=60", cause: .responseHeaderSectionSize, progress: .answered),
      Failure(path: "/status?code=700", cause: .protocolError, progress: .answered),
    ])
  func failures(_ failure: Failure) throws {
    let client = try H2Upstream().client()
    let error = try #require(try client.send(.get, ByteString(failure.path)).failure())
    #expect(error.cause == failure.cause, "\(error.description)")
    #expect(error.progress == failure.progress)
    #expect(try client.get().text == "hello")
  }

  @Test("truncated content is an error", arguments: ["/half", "/half?reset=1", "/half?end=1"])
  func broken(path: String) throws {
    let client = try H2Upstream().client()
    let received = try client.get(ByteString(path))
    #expect(received.text == "half")
    guard case .broken = received.error else {
      Issue.record("\(String(describing: received.error))")
      return
    }
    #expect(try client.get().text == "hello")
  }

  @Test("after GOAWAY, requests in flight finish and new requests use a new connection")
  func goAway() throws {
    let client = try H2Upstream().client()
    let answered = client.send(.get, "/hold")
    try wait(for: "a request that the upstream holds") { try client.get("/held").text == "1" }
    let goAway = client.send(.get, "/goaway?after=1001")
    #expect(try goAway.received().status == 204)
    try client.wait { $0.draining.count == 1 }
    #expect(try client.get("/release").status == 204, "over a new connection")
    #expect(try answered.received().text == "released")
    try client.wait { $0.draining.isEmpty && $0.counters.connectionsOpen == 1 }
    #expect(client.client.counters.connectionsOpened == 2)
  }

  @Test("an early response ends the upload but not the connection")
  func early() throws {
    let client = try H2Upstream().client()
    let content = GivenContent(Array(repeating: [UInt8](repeating: 1, count: 16_384), count: 10_000))
    #expect(try client.send(.post, "/early", content: content).received().status == 413)
    #expect(try client.get().text == "hello")
    #expect(client.client.counters.connectionsOpened == 1)
  }

  @Test("request content that breaks off resets the stream but not the connection")
  func brokenRequest() throws {
    let client = try H2Upstream().client()
    let content = GivenContent([[1, 2, 3]], ending: .broken("gone"))
    #expect(try client.send(.post, "/echo", content: content).failure()?.cause == .cancelled)
    #expect(try client.get().text == "hello")
    #expect(client.client.counters.connectionsOpened == 1)
  }

  @Test("the client detects a peer that is silent, with and without requests in flight", arguments: [true, false])
  func dead(isBusy: Bool) throws {
    let upstream = try H2Upstream()
    let client = try upstream.client { configuration in
      if isBusy {
        configuration.limits.pingWhenBusy = .milliseconds(10)
      } else {
        configuration.limits.pingWhenIdle = .milliseconds(10)
      }
      configuration.limits.pingAck = .seconds(1)
    }
    #expect(try client.get().text == "hello")
    if isBusy {
      let call = client.send(.get, "/freeze")
      let error = try #require(try call.failure())
      #expect(error.cause == .connectionTerminated)
      #expect(error.progress == .unanswered)
      #expect(error.description.contains("stopped responding"))
    } else {
      upstream.child.signal(SIGSTOP)
    }
    try client.wait { $0.connections.isEmpty }
  }

  @Test("the client waits for a peer that answers pings")
  func alive() throws {
    let client = try H2Upstream().client { configuration in
      configuration.limits.pingWhenBusy = .milliseconds(1)
    }
    let held = client.send(.get, "/hold")
    for _ in 0..<200 { #expect(try client.get("/held").status == 200) }
    _ = try client.get("/release")
    #expect(try held.received().text == "released")
    #expect(client.client.counters.connectionsOpened == 1)
  }

  @Test("a killed upstream fails its requests in flight, and the client finds the successor")
  func killed() throws {
    let first = try H2Upstream()
    let client = try first.client()
    let held = (0..<10).map { _ in client.send(.get, "/hold") }
    try wait(for: "ten requests that the upstream holds") { try client.get("/held").text == "10" }
    let crowd = (0..<300).map { _ in client.send() }
    first.child.kill()
    for call in held { #expect(try call.failure()?.progress == .unanswered) }
    for call in crowd where try call.failure() == nil { #expect(try call.received().text == "hello") }
    #expect(try client.send().failure()?.cause == .connectionRefused)
    let second = try H2Upstream(port: first.port)
    // The first request may still fail with the error of the attempt before.
    try wait(for: "a response of the successor") { try client.send().failure() == nil }
    let late = (0..<300).map { _ in client.send() }
    for call in late { #expect(try call.received().text == "hello") }
    #expect(client.client.counters.requestsOpen == 0)
    second.child.kill()
  }

  @Test("ten thousand concurrent requests are all answered over at most four connections")
  func crowd() throws {
    let client = try H2Upstream().client()
    let calls = (0..<10_000).map { _ in client.send(.get, "/x") }
    for call in calls { #expect(try call.received().text == "hello") }
    #expect(client.client.counters.connectionsOpened <= 4)
    #expect(client.client.counters.requestsSent == 10_000)
  }
}
