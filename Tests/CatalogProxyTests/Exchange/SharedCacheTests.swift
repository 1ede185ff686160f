import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import CatalogProxy

@Suite("Replicas with a shared cache")
struct SharedCacheTests {
  private static let song = "/v1/catalog/us/songs/1"
  private static let fresh: FieldLines = [.cacheControl: "max-age=60, stale-if-error=600", .eTag: "\"1\""]

  /// One replica: its gateway, and its view of the store.
  private struct Replica {
    let ground: ProxyGround
    let cache: MemorySharedCache

    init(_ store: MemoryStore, _ script: @escaping ScriptedUpstream.Script) throws {
      ground = ProxyGround({ _ in }, script)
      cache = try MemorySharedCache(store, ground.time)
    }

    func ask(_ target: String = song, _ directive: String = "", method: HTTPRequest.Method = .get) async throws
      -> CatalogReply
    {
      let call = try ground.call(target, directives: Sample.request(directive), method: method)
      return await respond(call)
    }

    func respond(_ call: CatalogCall) async -> CatalogReply {
      if let reply = ground.proxy.respondImmediately(call, refresh: {}) { return reply }
      return await ground.proxy.respond(
        call, by: UpstreamRoute(ground.upstream, executor: globalConcurrentExecutor, shared: cache))
    }

    var requests: Int { ground.upstream.requests.count }
  }

  private func body(_ reply: CatalogReply) -> String? {
    guard case .response(let response) = reply else { return nil }
    return String(decoding: response.body, as: UTF8.self)
  }

  @Test("fetch a response once, and the others say that it was shared, and have it in memory from then on")
  func once() async throws {
    let store = MemoryStore()
    let replicas = try (0..<3).map { _ in try Replica(store) { _ in .scripted(.ok, Self.fresh) } }
    let first = try await replicas[0].ask()
    #expect(first.cacheStatus == "musickit-token-server; fwd=uri-miss; ttl=60; stored")
    try await until("the response is stored") { store.entries.count == 1 }
    for replica in replicas.dropFirst() {
      let reply = try await replica.ask()
      #expect(body(reply) == body(first))
      #expect(reply.cacheStatus == "musickit-token-server; hit; ttl=60; detail=\"shared\"")
      if case .response(let response) = reply { #expect(response.encoded.fields[.age] == "0") }
      // The caller has the response before the memory has it, so the next one may ask the store once more.
      try await until("the response is in memory") {
        try await replica.ask().cacheStatus == "musickit-token-server; hit; ttl=60"
      }
      #expect(replica.requests == 0 && Set(replica.cache.results.keys) == [.hit])
    }
    #expect(replicas[0].requests == 1 && replicas[0].cache.results == [.miss: 1])
  }

  /// Sends the request to three replicas, and waits until two wait for the third.
  private func herd(
    _ store: MemoryStore, _ gate: Gate, _ script: @escaping ScriptedUpstream.Script
  ) async throws -> ([Replica], [Task<CatalogReply, any Error>]) {
    gate.isShut = true
    let replicas = try (0..<3).map { _ in try Replica(store, script) }
    var tasks: [Task<CatalogReply, any Error>] = []
    for replica in replicas {
      for _ in 0..<10 { tasks.append(Task { try await replica.ask() }) }
      try await until("the first replica fetches") { replicas[0].requests == 1 }
    }
    try await until("two replicas wait for the first, and all callers for their replicas") {
      store.waiting == 2 && store.questions == 3
        && replicas.allSatisfy { $0.ground.proxy.status.counts.collapsed == 9 }
    }
    return (replicas, tasks)
  }

  @Test("that miss at the same moment wait for one request")
  func together() async throws {
    let (store, gate) = (MemoryStore(), Gate())
    let (replicas, tasks) = try await herd(store, gate) { _ in
      await gate.pass()
      return .scripted(.ok, Self.fresh)
    }
    gate.isShut = false
    for task in tasks { #expect(try await task.value.status == 200) }
    #expect(replicas.map(\.requests) == [1, 0, 0])
    #expect(replicas[1].cache.results == [.waited: 1] && replicas[2].cache.results == [.waited: 1])
  }

  @Test("try one after another if a fetch fails")
  func failing() async throws {
    let (store, gate, nextGate) = (MemoryStore(), Gate(), Gate())
    let count = Locked(0)
    nextGate.isShut = true
    let (replicas, tasks) = try await herd(store, gate) { _ in
      let number = count.withLock { count in
        count += 1
        return count
      }
      await (number == 1 ? gate : nextGate).pass()
      return .scripted(.init(code: 503))
    }
    gate.isShut = false
    try await until("one replica fetches, and the last one waits for it") {
      replicas[1].requests + replicas[2].requests == 1 && store.questions == 5 && store.waiting == 1
    }
    nextGate.isShut = false
    for task in tasks { #expect(try await task.value.failure?.code == .upstreamError) }
    #expect(replicas.map(\.requests) == [1, 1, 1])
    try await until("no announcement is left") { store.state.withLock { $0.fetches.isEmpty } }
  }

  @Test("fetch on their own if the response is not for sharing", arguments: ["private", "max-age=0"])
  func unshared(_ control: String) async throws {
    let (store, gate) = (MemoryStore(), Gate())
    let (replicas, tasks) = try await herd(store, gate) { _ in
      await gate.pass()
      return .scripted(.ok, [.cacheControl: control])
    }
    gate.isShut = false
    for task in tasks { #expect(try await task.value.status == 200) }
    #expect(replicas.map(\.requests) == (control == "private" ? [10, 10, 10] : [1, 1, 1]))
    #expect(store.entries.isEmpty == (control == "private"))
    #expect(replicas[1].cache.results == [.vain: 1])
  }

  @Test("go on with exactly one fetch when the announcement lapses")
  func lapse() async throws {
    let (store, gate) = (MemoryStore(), Gate())
    let (replicas, tasks) = try await herd(store, gate) { _ in
      await gate.pass()
      return .scripted(.ok, Self.fresh)
    }
    for replica in replicas { replica.ground.time.advance(by: .seconds(2)) }
    store.lapse()
    try await until("another replica fetches") { replicas[1].requests + replicas[2].requests == 1 }
    try await until("the third waits for it") { store.questions == 5 && store.waiting == 1 }
    gate.isShut = false
    for task in tasks { #expect(try await task.value.status == 200) }
    #expect(replicas[1].requests + replicas[2].requests == 1)
  }

  @Test("get the response even if all callers of the one that fetches have gone")
  func abandoned() async throws {
    let (store, gate) = (MemoryStore(), Gate())
    let (replicas, tasks) = try await herd(store, gate) { (_) throws(UpstreamError) in
      await gate.pass()
      if Task.isCancelled { throw UpstreamError(.cancelled, .unanswered, "The request was cancelled.") }
      return .scripted(.ok, Self.fresh)
    }
    for task in tasks.prefix(10) { task.cancel() }
    for task in tasks.prefix(10) { _ = try await task.value }
    gate.isShut = false
    for task in tasks.dropFirst(10) { #expect(try await task.value.status == 200) }
    #expect(replicas.map(\.requests) == [1, 0, 0])
  }

  @Test("a caller that goes away while its replica waits leaves nothing behind")
  func departure() async throws {
    let (store, gate) = (MemoryStore(), Gate())
    let (replicas, tasks) = try await herd(store, gate) { _ in
      await gate.pass()
      return .scripted(.ok, Self.fresh)
    }
    for task in tasks.dropFirst(10) { task.cancel() }
    try await until("no lookup is left") { store.waiting == 0 }
    for task in tasks.dropFirst(10) { #expect(try await task.value.status == nil) }
    gate.isShut = false
    for task in tasks.prefix(10) { #expect(try await task.value.status == 200) }
    #expect(replicas.map(\.requests) == [1, 0, 0])
  }

  @Test("validate a stale response of another replica, and share the renewed one")
  func validation() async throws {
    let store = MemoryStore()
    let replicas = try (0..<3).map { _ in
      try Replica(store) { request in
        request.fields.has("if-none-match")
          ? .scripted(.notModified, Self.fresh, "") : .scripted(.ok, Self.fresh, "{\"a\":1}")
      }
    }
    _ = try await replicas[0].ask()
    try await until("the response is stored") { store.entries.count == 1 }
    for replica in replicas { replica.ground.time.advance(by: .seconds(100)) }
    store.state.withLock { $0.isStale = true }
    let stale = store.entries
    let reply = try await replicas[1].ask()
    #expect(reply.cacheStatus == "musickit-token-server; fwd=uri-miss; fwd-status=304; ttl=60; stored")
    #expect(body(reply) == "{\"a\":1}")
    #expect(replicas[1].ground.upstream.requests[0].fields[.ifNoneMatch] == "\"1\"")
    try await until("the renewed response is stored") { store.entries != stale }
    // The first one has a stale response, and the second one has renewed it.
    let renewed = try await replicas[0].ask()
    #expect(renewed.cacheStatus == "musickit-token-server; hit; ttl=60; detail=\"shared\"")
    #expect(replicas[0].requests == 1)
    #expect(try await replicas[2].ask().cacheStatus?.contains("shared") == true)
  }

  @Test("use a stale response of another replica if Apple fails")
  func staleOnError() async throws {
    let store = MemoryStore()
    let first = try Replica(store) { _ in .scripted(.ok, Self.fresh) }
    let second = try Replica(store) { _ in .scripted(.init(code: 503)) }
    _ = try await first.ask()
    try await until("the response is stored") { store.entries.count == 1 }
    second.ground.time.advance(by: .seconds(100))
    store.state.withLock { $0.isStale = true }
    let reply = try await second.ask()
    #expect(reply.status == 200 && reply.cacheStatus?.contains("ttl=-40; detail=\"stale-if-error\"") == true)
  }

  @Test(
    "a caller that does not accept a stored response gets one of Apple",
    arguments: [("no-cache", 0), ("max-age=5", 1), ("min-fresh=55", 1)])
  func directives(_ directive: String, _ questions: Int) async throws {
    let store = MemoryStore()
    let (first, second) = (
      try Replica(store) { _ in .scripted(.ok, Self.fresh) }, try Replica(store) { _ in .scripted(.ok, Self.fresh) }
    )
    _ = try await first.ask()
    try await until("the response is stored") { store.entries.count == 1 }
    second.ground.time.advance(by: .seconds(10))
    let reply = try await second.ask(Self.song, directive)
    #expect(reply.cacheStatus?.contains("fwd=uri-miss") == true)
    #expect(second.requests == 1 && store.questions == 1 + questions)
  }

  @Test("a caller that joins the flight of another one does not get a shared response that it must not have")
  func joined() async throws {
    let (store, gate) = (MemoryStore(), Gate())
    let (replicas, tasks) = try await herd(store, gate) { _ in
      await gate.pass()
      return .scripted(.ok, Self.fresh)
    }
    let strict = Task { try await replicas[1].ask(Self.song, "no-cache") }
    try await until("it waits with the others") { replicas[1].ground.proxy.status.counts.collapsed == 10 }
    gate.isShut = false
    #expect(try await strict.value.cacheStatus?.contains("; fwd=") == true)
    for task in tasks { #expect(try await task.value.status == 200) }
    #expect(replicas.map(\.requests) == [1, 1, 0])
  }

  @Test("ask Apple at once if the store is silent or known to be so, and count it")
  func silence() async throws {
    let store = MemoryStore()
    store.state.withLock { $0.isSilent = true }
    let replica = try Replica(store) { _ in .scripted(.ok, Self.fresh) }
    #expect(try await replica.ask().status == 200)
    replica.cache.isReady = false
    #expect(try await replica.ask("/v1/catalog/us/songs/2").status == 200)
    #expect(replica.requests == 2 && store.questions == 1)
    #expect(replica.cache.results == [.timeout: 1, .skipped: 1])
  }

  @Test("an entry that does not verify is a miss, and is replaced")
  func damaged() async throws {
    let store = MemoryStore()
    let (first, second) = (
      try Replica(store) { _ in .scripted(.ok, Self.fresh) }, try Replica(store) { _ in .scripted(.ok, Self.fresh) }
    )
    _ = try await first.ask()
    try await until("the response is stored") { store.entries.count == 1 }
    let good = store.entries
    store.state.withLock { state in for key in state.entries.keys { state.entries[key]?[60] ^= 1 } }
    #expect(try await second.ask().cacheStatus?.contains("fwd=uri-miss") == true)
    #expect(second.cache.results == [.invalid: 1] && second.requests == 1)
    try await until("the entry is replaced") { store.entries == good }
  }

  @Test("a response that must no longer be stored removes the shared one")
  func removal() async throws {
    let store = MemoryStore()
    let replica = try Replica(store) { _ in .scripted(.ok, Self.fresh) }
    _ = try await replica.ask()
    try await until("the response is stored") { store.entries.count == 1 }
    replica.ground.upstream.respond { _ in .scripted(.ok, [.cacheControl: "private"]) }
    _ = try await replica.ask(Self.song, "no-cache")
    try await until("the entry is removed") { store.entries.isEmpty }
  }

  @Test("nothing of a user, of /v1/test or of a caller that forbids storage goes to the store")
  func users() async throws {
    let store = MemoryStore()
    let replica = try Replica(store) { _ in .scripted(.ok, Self.fresh) }
    let route = UpstreamRoute(replica.ground.upstream, executor: globalConcurrentExecutor, shared: replica.cache)
    let user = try CatalogTarget(
      path: Array("/v1/me/library/songs".utf8).span, query: nil, allowsMe: true, hasUserToken: true)
    let calls = [
      try replica.ground.call("/v1/test"), try replica.ground.call(Self.song + "?relate=library", user: "token"),
      try replica.ground.call(Self.song, directives: Sample.request("no-store")),
      CatalogCall(
        .get, user, directives: RequestDirectives(), preconditions: Preconditions(), coding: .identity,
        fields: [.musicUserToken: "token"]),
    ]
    for call in calls { #expect(await replica.ground.proxy.respond(call, by: route).status == 200) }
    #expect(replica.requests == 4 && store.questions == 0 && store.entries.isEmpty)
    _ = try await replica.ask()
    try await until("the response is stored") { store.entries.count == 1 }
    for entry in store.entries.values {
      #expect(!String(decoding: entry, as: UTF8.self).contains("Bearer"))
    }
  }
}
