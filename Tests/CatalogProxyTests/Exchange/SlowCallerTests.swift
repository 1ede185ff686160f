import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import Memory
import TestSupport
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("A slow caller")
struct SlowCallerTests {
  /// Content whose last part comes when the gate opens.
  private final class SlowContent: ContentReader {
    private let parts: Locked<[[UInt8]]>
    private let gate: Gate

    init(_ first: Int, _ gate: Gate) {
      parts = Locked([[UInt8](repeating: 0x78, count: first), [0x79]])
      self.gate = gate
    }

    func read() async throws(ContentError) -> [UInt8]? {
      if parts.withLock({ $0.count }) == 1 { await gate.pass() }
      return parts.withLock { $0.isEmpty ? nil : $0.removeFirst() }
    }

    func cancel() {}
  }

  /// Content that has arrived when the test says so.
  private final class UnreadContent: ContentReader {
    let ended = Locked<(@Sendable (Result<Void, ContentError>) -> Void)?>(nil)

    func arriveAhead(
      upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
    ) {
      self.ended.withLock { $0 = ended }
    }

    func read() async throws(ContentError) -> [UInt8]? { nil }
    func cancel() {}
  }

  private let gate = Gate()
  private let received = Locked(0)

  private func makeGround(_ budget: MemoryBudget = .unlimited()) -> ProxyGround {
    gate.isShut = true
    return ProxyGround {
      $0.concurrency.initial = 1
      $0.memory = budget
    } _: { [received] request in
      let content = try? await request.content?.whole(atMost: .max)
      received.withLock { $0 += content?.count ?? 0 }
      return .scripted()
    }
  }

  private func post(_ first: Int, on ground: ProxyGround) throws -> OneShot<CatalogReply> {
    let reply = OneShot<CatalogReply>()
    let call = try ground.call("/v1/me/library/playlists", user: "user", method: .post, holder: 1)
    _ = ground.proxy.start(
      call, for: .only("slow"), content: SlowContent(first, gate), contentLength: first + 1, by: ground.route
    ) { reply.resume($0) }
    return reply
  }

  @Test("has no turn before the content of the request has arrived, and pays for its memory")
  func upload() async throws {
    let budget = MemoryBudget.unlimited()
    let ground = makeGround(budget)
    let reply = try post(1000, on: ground)
    try await until("a part has arrived") { budget.held(by: 1) >= 1000 }
    #expect(try await ground.ask("/v1/catalog/us/songs/1").status == 200)
    #expect(ground.upstream.requests.count == 1 && received.withLock { $0 } == 0)
    gate.isShut = false
    #expect(await reply.get().status == 200)
    #expect(received.withLock { $0 } == 1001)
    try await until("nothing is charged") { budget.used == 0 }
  }

  @Test("has a turn as soon as the server keeps no more of the content")
  func longUpload() async throws {
    let ground = makeGround()
    let reply = try post(CatalogGateway.contentAhead + 1, on: ground)
    try await until("it is at the upstream") { ground.upstream.requests.count == 1 }
    gate.isShut = false
    #expect(await reply.get().status == 200)
    #expect(received.withLock { $0 } == CatalogGateway.contentAhead + 2)
  }

  @Test("gets 503 if there is no memory for the content")
  func uploadBeyondMemory() async throws {
    let ground = makeGround(MemoryBudget(limit: 800))
    gate.isShut = false
    let reply = try post(1000, on: ground)
    #expect(await reply.get().failure?.shortage == .memory)
    #expect(ground.upstream.requests.isEmpty)
  }

  @Test("has its turn until Apple's response has ended, and not until it has read that", arguments: [true, false])
  func download(isComplete: Bool) async throws {
    let (ground, content) = (makeGround(), UnreadContent())
    ground.upstream.respond { _ in UpstreamResponse(status: .ok, fields: [:], content: content) }
    let call = try ground.call("/v1/catalog/us/songs/1", directives: Sample.request("no-store"))
    let reply = await ground.proxy.respond(call, to: "slow", by: ground.route)
    #expect(reply.status == 200 && ground.proxy.status.inFlight == 1)
    ground.upstream.respond { _ in .scripted() }
    let next = try ground.call("/v1/catalog/us/songs/2")
    let task = Task { await ground.respond(next, to: "next") }
    try await until("the next one waits") { ground.proxy.status.waiting == 1 }
    content.ended.withLock { $0 }?(isComplete ? .success(()) : .failure(.timedOut))
    try await until("the next one has the turn") { ground.upstream.requests.count == 2 }
    #expect(await task.value.status == 200)
    #expect(ground.proxy.status.inFlight == 0)
    withExtendedLifetime(reply) {}
  }

  @Test("leaves no timer behind when its response has ended, and no turn at its deadline", arguments: [true, false])
  func deadline(isComplete: Bool) async throws {
    let (ground, content) = (makeGround(), UnreadContent())
    ground.upstream.respond { _ in UpstreamResponse(status: .ok, fields: [:], content: content) }
    let call = try ground.call("/v1/catalog/us/songs/1", directives: Sample.request("no-store"))
    let reply = await ground.proxy.respond(call, by: ground.route)
    try await until("its deadline is watched") { ground.time.pauses == 1 }
    if isComplete { content.ended.withLock { $0 }?(.success(())) } else { ground.time.advance(by: .seconds(30)) }
    try await until("neither timer nor turn is left") {
      ground.time.pauses == 0 && ground.proxy.status.inFlight == 0
    }
    withExtendedLifetime(reply) {}
  }
}
