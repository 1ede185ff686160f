import Bytes
import ClientTransport
import Dispatch
import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import Memory
import TestSupport
import Testing

@testable import EventLoop
@testable import HTTPClient

@Suite("Over HTTP/1.1")
struct HTTP1Tests {
  private let peer: ScriptedPeer
  private let client: TestClient

  init() throws {
    peer = try ScriptedPeer()
    client = try TestClient(port: peer.port)
  }

  @Test("a request is sent unchanged, and its response arrives without connection fields")
  func exchange() throws {
    let call = client.send(
      .get, "/v1/a?ids[songs]=1,2&l=%20", fields: [.accept: "*/*", .connection: "close"],
      credential: [.authorization: "Bearer a.b.c"])
    let connection = try peer.accept()
    let head = try connection.request().head
    #expect(
      head == "GET /v1/a?ids[songs]=1,2&l=%20 HTTP/1.1\r\nHost: 127.0.0.1:\(peer.port)\r\nAccept: */*\r\n"
        + "Authorization: Bearer a.b.c\r\n\r\n")
    connection.send("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nConnection: x-y\r\nX-Y: z\r\nContent-Length: 5\r\n\r\nhello")
    let received = try call.received()
    #expect(received.status == 200)
    #expect(received.text == "hello")
    #expect(received.error == nil)
    #expect(received.response.fields == [.eTag: "\"a\""])
    #expect(received.response.contentLength == 5)
  }

  @Test("a connection is reused, and the counters report it")
  func reuse() throws {
    let calls = (0..<3).map { number in "/\(number)" }
    var connection: PeerConnection?
    for target in calls {
      let call = client.send(.get, ByteString(target))
      let present = try connection ?? peer.accept()
      connection = present
      #expect(try present.request().head.hasPrefix("GET \(target) "))
      present.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\(target.last ?? "x")")
      #expect(try call.received().text == String(target.dropFirst()))
    }
    var counters = UpstreamCounters()
    (counters.connectionsOpened, counters.connectionsOpen) = (1, 1)
    (counters.requestsSent, counters.requestsOnReusedConnection) = (3, 2)
    #expect(client.client.counters == counters)
  }

  @Test("over the memory budget, only a first connection opens, and requests wait for open connections")
  func overBudget() throws {
    let memory = MemoryBudget(limit: 8 * ByteTransport.cost)
    let client = try TestClient(port: peer.port) { $0.memory = memory }
    try respond(client.send(), on: peer.accept()).end()
    try client.wait { $0.connections.isEmpty }
    let calls = (0..<20).map { _ in client.send() }
    var connections: [PeerConnection] = []
    // An eighth is reserved.
    for _ in 0..<7 { connections.append(try peer.accept()) }
    try client.wait { $0.counters.connectionsOpen == 7 }
    #expect(memory.used == 7 * ByteTransport.cost)
    #expect(memory.refusals(for: .upstream) > 0)
    for _ in calls {
      let connection = try PeerConnection.firstWithInput(of: connections)
      _ = try connection.request()
      connection.send("HTTP/1.1 204 No Content\r\n\r\n")
    }
    for call in calls { #expect(try call.received().status == 204) }
    #expect(client.client.counters.connectionsOpened == 8)
  }

  @Test("the client drops an idle connection that the peer closes, and the next request opens another")
  func idleEnd() throws {
    try respond(client.send(), on: peer.accept()).end()
    try client.wait { $0.connections.isEmpty }
    try respond(client.send(), on: peer.accept())
    #expect(client.client.counters.connectionsOpened == 2)
  }

  @Test("an idle connection closes after its idle time")
  func idleTime() throws {
    let client = try TestClient(port: peer.port) { $0.limits.idle = .milliseconds(1) }
    let connection = try respond(client.send(), on: peer.accept())
    #expect(connection.waitForEnd())
  }

  @Test("unexpected bytes close an idle connection")
  func unasked() throws {
    let connection = try respond(client.send(), on: peer.accept())
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    #expect(connection.waitForEnd())
  }

  @Test(
    "after an unsolicited response, each request has its own connection until trust returns",
    arguments: [(distrust: Duration.seconds(60), isReused: false), (distrust: .zero, isReused: true)])
  func distrust(row: (distrust: Duration, isReused: Bool)) throws {
    let client = try TestClient(port: peer.port) { $0.limits.distrust = row.distrust }
    let first = try respond(client.send(), on: peer.accept())
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    #expect(first.waitForEnd())
    let second = try respond(client.send(), on: peer.accept())
    let counters = try client.onLoop { $0.counters }
    #expect(counters.unsolicitedResponses == 1)
    #expect(counters.connectionsOpen == (row.isReused ? 1 : 0))
    guard row.isReused else { return #expect(second.waitForEnd()) }
    try respond(client.send(), on: second)
  }

  /// What a peer may do with an idle connection.
  enum Surprise: CaseIterable { case response, end }

  @Test(
    "bytes or an end on an idle connection before the next request send that request over another connection",
    arguments: Surprise.allCases)
  func unaskedBeforeNext(surprise: Surprise) throws {
    let connection = try respond(client.send(), on: peer.accept())
    // On the loop, which therefore sees the bytes only after it has assigned the next request.
    let counters = try client.onLoop { client in
      switch surprise {
      case .response: connection.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")
      case .end: connection.end()
      }
      client.submit(
        UpstreamExchange(UpstreamRequest(.get, "/next"), TestClient.patient, by: client))
      return client.counters
    }
    #expect(counters.requestsOpen == 0)
    #expect(counters.connectionsOpen == 0)
    guard counters.requestsOpen == 0 else { return }
    #expect(try peer.accept().request().head.hasPrefix("GET /next "))
  }

  @Test("a connection whose response arrived before the whole request is not reused, even if the rest follows")
  func earlyResponse() throws {
    let content = GatedContent()
    let call = client.send(.post, content: content, contentLength: 5)
    let connection = try peer.accept()
    _ = try connection.bytes(through: "\r\n\r\n")
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh")
    _ = try call.response()
    try client.onLoop { _ in content.open() }
    _ = try connection.bytes(through: "hello")
    connection.send("i")
    #expect(try call.received().text == "hi")
    #expect(try client.onLoop { $0.counters.connectionsOpen } == 0)
  }

  @Test("bytes after a response close its connection and become no response")
  func tooLong() throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")
    #expect(try call.received().text == "hi")
    #expect(connection.waitForEnd())
  }

  /// How a peer ends a connection.
  enum Ending: CaseIterable { case close, reset }

  @Test("a connection that ends before the response begins leaves the request unanswered", arguments: Ending.allCases)
  func unanswered(ending: Ending) throws {
    let reused = try respond(client.send(), on: peer.accept())
    let call = client.send()
    _ = try reused.request()
    ending == .close ? reused.end() : reused.reset()
    let error = try #require(try call.failure())
    #expect(error.progress == .unanswered)
    #expect(error.cause == .connectionTerminated)
    #expect(error.description.contains("127.0.0.1:\(peer.port)"))
  }

  @Test("a response that ends in its head is incomplete")
  func brokenHead() throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    connection.send("HTTP/1.1 200 OK\r\nContent-")
    connection.end()
    let error = try #require(try call.failure())
    #expect(error.progress == .answered)
    #expect(error.cause == .responseIncomplete)
  }

  @Test(
    "truncated content is an error", .otherPrograms,
    arguments: [("Content-Length: 9", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n")], Ending.allCases)
  func brokenContent(framing: (field: String, content: String), ending: Ending) throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    connection.send("HTTP/1.1 200 OK\r\n\(framing.field)\r\n\r\n\(framing.content)")
    let response = try call.response()
    #expect(try call.read(response) == Array("hello".utf8))
    ending == .close ? connection.end() : connection.reset()
    guard case .broken(let words) = #expect(throws: ContentError.self, performing: { try call.read(response) }) else {
      Issue.record("It did not break off.")
      return
    }
    #expect(words.contains("in the middle of its response"))
  }

  @Test("content until the end of the connection is complete after a close and an error after a reset")
  func untilClose() throws {
    for ending in Ending.allCases {
      let call = client.send()
      let connection = try peer.accept()
      _ = try connection.request()
      connection.send("HTTP/1.1 200 OK\r\n\r\nhello")
      let response = try call.response()
      #expect(try call.read(response) == Array("hello".utf8))
      ending == .close ? connection.end() : connection.reset()
      switch ending {
      case .close: #expect(try call.read(response) == nil)
      case .reset: #expect(throws: ContentError.self) { try call.read(response) }
      }
    }
  }

  @Test(
    "a malformed response is refused",
    arguments: [
      ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", .protocolError),
      ("nonsense", .protocolError),
      ("HTTP/1.1 200 OK\r\nA: \(String(repeating: "a", count: 40_000))", .responseHeaderSectionSize),
    ] as [(String, UpstreamError.Cause)])
  func malformed(text: String, cause: UpstreamError.Cause) throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    connection.send(text)
    let error = try #require(try call.failure())
    #expect(error.cause == cause)
    #expect(error.progress == .answered)
    #expect(connection.waitForEnd())
  }

  @Test("a caller that does not read slows the peer down, and no content is lost")
  func backPressure() throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    let text = String(
      repeating: String(decoding: (0..<65_521).map { UInt8(0x30 + $0 % 71) }, as: UTF8.self), count: 512)
    let content = Array(text.utf8)
    let size = content.count
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n")
    let response = try call.response()
    // The client stops reading once it has enough; then the system's buffers fill.
    let sent = try connection.sendWhatFits(content) {
      try client.onLoop { _ in (response.content as? ReceivedContent)?.buffered ?? 0 } >= 65_536
    }
    #expect(sent < size)
    #expect(try client.onLoop { _ in (response.content as? ReceivedContent)?.buffered ?? 0 } < 256 * 1024)
    // On its own thread, because other tests occupy the threads that tasks share.
    DispatchQueue(label: "peer").async { connection.send(Array(content[sent...])) }
    var received: [UInt8] = []
    while let part = try call.read(response) { received += part }
    // As strings, because strings compare quickly.
    #expect(String(decoding: received, as: UTF8.self) == text)
  }

  @Test("the content of a request is sent with its length or in chunks", arguments: [nil, 10])
  func requestContent(length: Int?) throws {
    let content = GivenContent([Array("hello".utf8), Array("world".utf8)])
    let call = client.send(.post, content: content, contentLength: length)
    let connection = try peer.accept()
    if length == nil {
      let bytes = try connection.bytes(through: "0\r\n\r\n")
      #expect(bytes.hasSuffix("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n"))
    } else {
      let (head, content) = try connection.request()
      #expect(head.contains("Content-Length: 10\r\n"))
      #expect(content == Array("helloworld".utf8))
    }
    connection.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
    #expect(try call.received().status == 201)
    #expect(client.client.counters.connectionsOpen == 1)
  }

  @Test("the content of a request waits for a peer that does not read")
  func requestBackPressure() throws {
    let content = GivenContent(Array(repeating: [UInt8](repeating: 1, count: 65_536), count: 1000))
    let call = client.send(.post, content: content)
    let connection = try peer.accept()
    _ = try connection.bytes(through: "\r\n\r\n")
    try client.wait { _ in content.reads > 3 }
    connection.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
    #expect(try call.received().status == 413)
    #expect(content.reads < 1000)
    try client.wait { $0.connections.isEmpty }
  }

  @Test(
    "request content that breaks off or has the wrong length closes the connection",
    arguments: [
      (GivenContent([[1, 2]], ending: .broken("gone")), UpstreamError.Cause.cancelled),
      (GivenContent([[1, 2]]), .proxyInternalError), (GivenContent([[1, 2], [3, 4]]), .proxyInternalError),
    ])
  func brokenRequest(content: GivenContent, cause: UpstreamError.Cause) throws {
    let call = client.send(.put, content: content, contentLength: 3)
    let connection = try peer.accept()
    let error = try #require(try call.failure())
    #expect(error.cause == cause)
    #expect(throws: TestFailure.self, "the client closes") { try connection.bytes(through: "never") }
    #expect(client.client.counters.connectionsOpen == 0)
  }

  @Test("a cancelled task closes its connection, before and after the response head", arguments: [false, true])
  func cancelled(isAnswered: Bool) throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    if isAnswered {
      connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
      call.cancelContent(try call.response())
    } else {
      call.task.cancel()
      #expect(try call.failure()?.cause == .cancelled)
      #expect(try call.failure()?.progress == .unanswered)
    }
    #expect(connection.waitForEnd())
    try client.wait { $0.counters.requestsOpen == 0 && $0.counters.connectionsOpen == 0 }
  }

  @Test("a request that is cancelled before its start is not sent, and the next one keeps its own deadline")
  func cancelledFirst() throws {
    let result = Once<Result<UpstreamResponse, UpstreamError>>()
    let call = try client.onLoop { client in
      let call = client.call(UpstreamRequest(.get, "/never"), limits: TestClient.patient)
      call.cancel()
      return call
    }
    // After the cancellation, which the loop does later.
    client.loop.post { call.start(Receiver(result)) }
    guard case .failure(let error) = try result.wait() else { return #expect(Bool(false)) }
    #expect(error.cause == .cancelled && error.progress == .unprocessed)
    let first = client.send(.get, "/first", limits: .init(connect: .zero, firstByte: .zero, whole: .milliseconds(1)))
    #expect(try first.failure() != nil)
    let second = client.send(.get, "/second")
    let connection = try peer.accept()
    #expect(try connection.request().head.hasPrefix("GET /second "))
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2")
    #expect(try second.received().text == "2")
  }

  @Test("a request that has been sent goes on if it is cancelled unless sent, and one that has not ends")
  func cancelledUnlessSent() throws {
    func make(_ target: ByteString) throws -> (any UpstreamCall, Once<Result<UpstreamResponse, UpstreamError>>) {
      let call = try client.onLoop { $0.call(UpstreamRequest(.get, target), limits: TestClient.patient) }
      return (call, Once())
    }
    let ((sent, response), (waiting, nothing)) = (try make("/sent"), try make("/waiting"))
    client.loop.post { sent.start(Receiver(response)) }
    let connection = try peer.accept()
    _ = try connection.request()
    sent.cancelUnlessSent()
    waiting.cancelUnlessSent()
    client.loop.post { waiting.start(Receiver(nothing)) }
    guard case .failure(let error) = try nothing.wait() else { return #expect(Bool(false)) }
    #expect(error.cause == .cancelled && error.progress == .unprocessed)
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    #expect(try response.wait().get().status == .ok)
  }

  private final class Receiver: UpstreamReceiver {
    private let result: Once<Result<UpstreamResponse, UpstreamError>>

    init(_ result: Once<Result<UpstreamResponse, UpstreamError>>) {
      self.result = result
    }

    func received(_ result: Result<UpstreamResponse, UpstreamError>) {
      self.result.give(result)
    }
  }

  @Test("the timer of a request that has ended serves the next one, with the next one's deadline")
  func timers() throws {
    let short = UpstreamTimeouts(connect: .seconds(60), firstByte: .milliseconds(300), whole: .seconds(60))
    let quick = client.send(.get, "/quick", limits: short)
    let connection = try peer.accept()
    _ = try connection.request()
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    #expect(try quick.received().status == 200)
    let channels = try client.onLoop { $0.loop.channelCount }
    let slow = client.send(.get, "/slow")
    _ = try connection.request()
    #expect(try client.onLoop { $0.loop.channelCount } == channels)
    // A request on another connection that ends by the same limit shows that the first one's deadline has passed.
    #expect(try client.send(.get, "/late", limits: short).failure()?.cause == .connectionReadTimeout)
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3")
    #expect(try slow.received().text == "3")
    #expect(try client.send(.get, "/late", limits: short).failure()?.cause == .connectionReadTimeout)
  }

  @Test("a task that is cancelled while it reads closes its connection")
  func cancelledReader() throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
    let response = try call.response()
    let end = Once<ContentError?>()
    let reader = Task(executorPreference: client.loop) {
      do throws(ContentError) { end.give(try await response.content.read() == nil ? nil : .timedOut) } catch {
        end.give(error)
      }
    }
    reader.cancel()
    #expect(try end.wait() == .cancelled)
    #expect(connection.waitForEnd())
  }

  @Test("the client opens no more connections than allowed, and requests wait")
  func capacity() throws {
    let client = try TestClient(port: peer.port) { $0.limits.http1Connections = 2 }
    let calls = (0..<6).map { client.send(.get, "/\($0)") }
    try client.wait { $0.counters.requestsOpen == 2 && $0.counters.requestsWaiting == 4 }
    let connections = try (0..<2).map { _ in try peer.accept() }
    var order: [String] = []
    for number in 0..<6 {
      let connection = connections[number % 2]
      order.append(String(try connection.request().head.prefix(6).dropFirst(5)))
      connection.send("HTTP/1.1 204 No Content\r\n\r\n")
      try client.wait { $0.counters.requestsSent == min(6, 3 + number) }
    }
    for call in calls { #expect(try call.received().status == 204) }
    #expect(order.sorted() == (0..<6).map(String.init))
    #expect(client.client.counters.connectionsOpened == 2)
  }

  @Test("a waiting request can be cancelled or time out")
  func waiting() throws {
    let client = try TestClient(port: peer.port) { $0.limits.http1Connections = 1 }
    let first = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    let second = client.send()
    let third = client.send(limits: .init(connect: .zero, firstByte: .zero, whole: .milliseconds(1)))
    try client.wait { $0.counters.requestsWaiting > 0 }
    second.task.cancel()
    #expect(try second.failure() == UpstreamError(.cancelled, .unprocessed, "The request was cancelled."))
    #expect(try third.failure()?.cause == .connectionLimitReached)
    #expect(try third.failure()?.progress == .unprocessed)
    connection.send("HTTP/1.1 204 No Content\r\n\r\n")
    #expect(try first.received().status == 204)
    #expect(client.client.counters.requestsWaiting == 0)
  }

  @Test("waiting requests are sent in order of arrival, and each may leave before")
  func order() throws {
    let client = try TestClient(port: peer.port) { $0.limits.http1Connections = 1 }
    let first = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    let calls = try (1...4).map { number in
      let call = client.send(.get, "/\(number)")
      try client.wait { $0.counters.requestsWaiting == number }
      return call
    }
    for call in [calls[0], calls[2]] {
      call.task.cancel()
      #expect(try call.failure()?.cause == .cancelled)
    }
    try client.wait { $0.counters.requestsWaiting == 2 }
    for path in ["/2", "/4"] {
      connection.send("HTTP/1.1 204 No Content\r\n\r\n")
      #expect(try connection.request().head.hasPrefix("GET \(path) "))
    }
    connection.send("HTTP/1.1 204 No Content\r\n\r\n")
    for call in [first, calls[1], calls[3]] { #expect(try call.received().status == 204) }
  }

  @Test("a response that begins or ends too late fails")
  func deadlines() throws {
    let late = client.send(limits: .init(connect: .seconds(60), firstByte: .milliseconds(1), whole: .seconds(60)))
    let first = try peer.accept()
    #expect(try late.failure()?.cause == .connectionReadTimeout)
    #expect(try late.failure()?.progress == .unanswered)
    _ = try first.request()
    #expect(first.waitForEnd())
    let slow = client.send(limits: .init(connect: .seconds(60), firstByte: .seconds(60), whole: .seconds(1)))
    let second = try peer.accept()
    _ = try second.request()
    second.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
    #expect(try slow.received().error == .timedOut)
    #expect(second.waitForEnd())
  }

  @Test("a malformed target is refused", arguments: ["", "a", "/a b", "/a\r\nX: y", "/é"])
  func targets(target: String) throws {
    let error = try #require(try client.send(.get, ByteString(target)).failure())
    #expect(error.cause == .proxyInternalError)
    #expect(error.progress == .unprocessed)
  }

  @Test("a closed client cancels its requests in flight and refuses new ones")
  func closed() throws {
    let call = client.send()
    let connection = try peer.accept()
    _ = try connection.request()
    client.client.close()
    #expect(try call.failure()?.cause == .cancelled)
    #expect(connection.waitForEnd())
    #expect(try client.send().failure()?.cause == .cancelled)
  }

  @Test("a pause lasts until its end or its cancellation")
  func pause() throws {
    let (loop, client) = (client.loop, client.client)
    let ends = (Once<Bool>(), Once<Bool>())
    Task(executorPreference: loop) { ends.0.give((try? await client.pause(for: .milliseconds(1))) != nil) }
    let task = Task(executorPreference: loop) { ends.1.give((try? await client.pause(for: .seconds(60))) != nil) }
    task.cancel()
    #expect(try ends.0.wait())
    #expect(try !ends.1.wait())
  }

  @Test("an alarm rings once, after its duration, and not after its cancellation")
  func alarm() throws {
    let (loop, client) = (client.loop, client.client)
    let (rings, last) = (Locked<[Int]>([]), Once<Bool>())
    let fromAnotherThread = Once<any CancellableWork>()
    loop.performAndWait {
      fromAnotherThread.give(client.alarm(after: .seconds(3600)) { rings.withLock { $0.append(1) } })
      let cancelled = client.alarm(after: .milliseconds(1)) { rings.withLock { $0.append(2) } }
      cancelled.cancel()
      // It has the timer of the one before.
      let rung = client.alarm(after: .milliseconds(2)) { rings.withLock { $0.append(3) } }
      _ = client.alarm(after: .milliseconds(40)) {
        rung.cancel()
        last.give(true)
      }
    }
    try fromAnotherThread.wait().cancel()
    #expect(try last.wait())
    #expect(rings.withLock { $0 } == [3])
    // Each of the three timers is free again, also that of the alarm that another thread has cancelled.
    loop.performAndWait { #expect(client.spareTimers.count == 3) }
  }

  /// Responds to a request on `connection`, which stays open.
  @discardableResult
  private func respond(_ call: Call, on connection: PeerConnection) throws -> PeerConnection {
    _ = try connection.request()
    connection.send("HTTP/1.1 204 No Content\r\n\r\n")
    #expect(try call.received().status == 204)
    return connection
  }
}
