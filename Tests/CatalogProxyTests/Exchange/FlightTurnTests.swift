import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing
import UpstreamAdmission

@testable import CatalogProxy

@Suite("A request that several callers share, and that waits for a turn")
struct FlightTurnTests {
  private static let popular = "/v1/catalog/us/songs/popular"

  /// A proxy with eight requests in flight at most. The greedy client has six of them, so its next request waits.
  private struct Scene {
    let gate = Gate()
    let ground: ProxyGround
    private(set) var tasks: [Task<CatalogReply, Never>] = []

    init() async throws {
      let gate = gate
      gate.isShut = true
      ground = ProxyGround { configuration in
        (configuration.concurrency.initial, configuration.concurrency.maximum) = (8, 8)
      } _: { request in
        if request.target.text.contains("/held") { await gate.pass() }
        return .scripted(.ok, [.cacheControl: "max-age=60"])
      }
      for number in 0..<6 { try await hold(number, by: "greedy") }
    }

    /// Takes a turn that the client keeps until the gate opens.
    mutating func hold(_ number: Int, by client: String) async throws {
      try send("/v1/catalog/us/songs/held\(number)", by: client)
      try await until("request \(number) is sent") { ground.upstream.requests.count == number + 1 }
    }

    mutating func send(_ target: String, by client: String) throws {
      let (ground, call) = (ground, try ground.call(target))
      tasks.append(Task { await ground.respond(call, to: client) })
    }

    /// Ends all requests.
    func end() async {
      gate.isShut = false
      for task in tasks { #expect(await task.value.status == 200) }
    }
  }

  @Test("is sent at once when a caller joins that may send at once, and is charged to that caller's client")
  func atOnce() async throws {
    var scene = try await Scene()
    let ground = scene.ground
    try scene.send(Self.popular, by: "greedy")
    try await until("it waits") { ground.proxy.status.waiting == 1 }
    let reply = try await ground.ask(Self.popular, by: "modest")
    #expect(reply.status == 200 && reply.cacheStatus?.contains("collapsed") == true)
    let status = ground.proxy.status
    #expect(status.waiting == 0 && status.inFlight == 6)
    #expect(status.clients["modest"]?.attempts == 1 && status.clients["greedy"]?.attempts == 6)
    await scene.end()
    #expect(ground.upstream.requests.count == 7)
  }

  @Test("has a response whose age counts from when it was sent, and not from its wait")
  func age() async throws {
    let scene = try await Scene()
    let (ground, call) = (scene.ground, try scene.ground.call(Self.popular))
    let waiting = Task { await ground.respond(call, to: "greedy") }
    try await until("it waits") { ground.proxy.status.waiting == 1 }
    ground.time.advance(by: .seconds(20))
    await scene.end()
    let status = await waiting.value.cacheStatus
    #expect(status?.contains("ttl=60") == true, "\(status ?? "")")
  }

  @Test("is sent at the turn of whichever caller comes first")
  func firstTurn() async throws {
    var scene = try await Scene()
    let ground = scene.ground
    for number in 6..<8 { try await scene.hold(number, by: "other") }
    try scene.send(Self.popular, by: "greedy")
    try await until("it waits") { ground.proxy.status.waiting == 1 }
    try scene.send(Self.popular, by: "modest")
    try await until("the other caller has joined") { ground.proxy.status.counts.collapsed == 1 }
    #expect(ground.proxy.status.waiting == 1)
    await scene.end()
    #expect(ground.upstream.requests.count == 9)
    #expect(ground.proxy.status.clients["modest"]?.attempts == 1)
  }

  @Test("is sent at once for a caller that joined while the replicas' store was asked")
  func afterStore() async throws {
    let scene = try await Scene()
    let (ground, store) = (scene.ground, MemoryStore())
    let (shared, other) = (try MemorySharedCache(store, ground.time), try MemorySharedCache(store, ground.time))
    let route = UpstreamRoute(ground.upstream, executor: globalConcurrentExecutor, shared: shared)
    let call = try ground.call(Self.popular)
    let key = try #require(ground.proxy.sharedKey(of: call, at: shared))
    let lookup = other.look(up: key, patience: .seconds(10)) { _ in }
    try await until("another replica fetches") { store.questions == 1 && store.waiting == 0 }
    let greedy = Task { await ground.proxy.respond(call, to: "greedy", by: route) }
    try await until("the flight waits for that replica") { store.questions == 2 }
    let modest = Task { await ground.proxy.respond(call, to: "modest", by: route) }
    try await until("both callers wait") { ground.proxy.status.counts.collapsed == 1 }
    other.finish(key, .failed)
    #expect(await modest.value.status == 200)
    #expect(await greedy.value.status == 200)
    #expect(ground.proxy.status.clients["modest"]?.attempts == 1)
    withExtendedLifetime(lookup) {}
    await scene.end()
  }

  @Test("fails at the deadline of its first caller for that caller only")
  func deadline() async throws {
    var scene = try await Scene()
    let ground = scene.ground
    for number in 6..<8 { try await scene.hold(number, by: "modest") }
    let call = try ground.call(Self.popular)
    let first = Task { await ground.respond(call, to: "greedy") }
    try await until("it waits, and its deadline is watched") {
      ground.proxy.status.waiting == 1 && ground.time.pauses == 1
    }
    ground.time.advance(by: .seconds(20))
    try scene.send(Self.popular, by: "modest")
    try await until("the other caller has joined") { ground.proxy.status.counts.collapsed == 1 }
    ground.time.advance(by: .seconds(9))
    #expect(await first.value.failure?.code == .upstreamTimeout)
    try await until("the other caller waits on") { ground.proxy.status.waiting == 1 }
    await scene.end()
    #expect(ground.upstream.targets.filter { $0 == Self.popular }.count == 1)
    #expect(ground.proxy.status.counts.misses == 10 && ground.proxy.status.counts.collapsed == 1)
  }
}
