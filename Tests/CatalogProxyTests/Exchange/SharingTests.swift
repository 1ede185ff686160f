import HTTP1
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import CatalogProxy
@testable import HTTPCache

@Suite("A response to many simultaneous requests")
struct SharingTests {
  private static let song = "/v1/catalog/us/songs/1"

  private static func fields(_ line: String) -> FieldLines {
    let parts = line.split(separator: ": ").map(String.init)
    return [HTTPField.Name(parts[0]) ?? .via: parts[1]]
  }

  /// Sends `count` equal requests, and waits until all of them wait for one upstream request.
  private func herd(_ count: Int, _ ground: ProxyGround, _ gate: Gate) async throws -> [Task<CatalogReply, Never>] {
    let before = (ground.upstream.requests.count, ground.proxy.status.counts.collapsed)
    gate.isShut = true
    let call = try ground.call(Self.song)
    let tasks = (0..<count).map { _ in Task { await ground.respond(call) } }
    try await until("they wait for one request") {
      ground.upstream.requests.count == before.0 + 1 && ground.proxy.status.counts.collapsed == before.1 + count - 1
    }
    return tasks
  }

  @Test(
    "a response that may not be shared answers one request, and every other request goes upstream by itself",
    arguments: ["Cache-Control: private", "Cache-Control: no-store", "Vary: *", "Set-Cookie: a=b"])
  func forOne(_ line: String) async throws {
    let gate = Gate()
    let fields = Self.fields(line)
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.ok, fields)
    }
    let tasks = try await herd(50, ground, gate)
    gate.isShut = false
    var collapsed = 0
    for task in tasks {
      let reply = await task.value
      #expect(reply.status == 200)
      if reply.cacheStatus?.contains("collapsed") == true { collapsed += 1 }
    }
    #expect(ground.upstream.requests.count == 50)
    #expect(collapsed == 0)
    #expect(ground.proxy.cache.statistics.entries == 0)
  }

  @Test("callers with and without gzip share one request", arguments: [ContentCoding.identity, .gzip])
  func codings(_ leader: ContentCoding) async throws {
    let gate = Gate()
    let text = String(repeating: "text ", count: 1000)
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.ok, Self.fields("Cache-Control: max-age=10"), text)
    }
    gate.isShut = true
    var tasks: [(ContentCoding, Task<CatalogReply, Never>)] = []
    for coding in [leader, .identity, .gzip] {
      let call = try ground.call(Self.song, coding: coding)
      tasks.append((coding, Task { await ground.respond(call) }))
      try await until("it waits") { ground.proxy.status.counts.misses == tasks.count }
    }
    gate.isShut = false
    for (coding, task) in tasks {
      guard case .response(let response) = await task.value else { return #expect(Bool(false)) }
      // While the response is being compressed for one caller, others get it without gzip.
      let isCompressed = response.body.starts(with: [0x1F, 0x8B])
      #expect(!isCompressed || coding == .gzip)
      let content = isCompressed ? try Gzip.inflate(response.body, limit: 10_000) : response.body
      #expect(String(decoding: content, as: UTF8.self) == text)
    }
    #expect(ground.upstream.requests.count == 1)
  }

  @Test("a response too large to be stored answers one request, and the others go upstream because nothing is stored")
  func tooLarge() async throws {
    let gate = Gate()
    let ground = ProxyGround { configuration in
      configuration.cache.largestContent = 1500
    } _: { _ in
      await gate.pass()
      return .scripted(.ok, [.cacheControl: "max-age=60"], String(repeating: " ", count: 2000))
    }
    let tasks = try await herd(3, ground, gate)
    gate.isShut = false
    for task in tasks { #expect(await task.value.cacheStatus == "musickit-token-server; fwd=uri-miss") }
    #expect(ground.upstream.requests.count == 3)

    ground.upstream.respond { _ in .scripted(.ok, [.cacheControl: "max-age=0", .eTag: "\"1\""]) }
    _ = try await ground.ask(Self.song)
    gate.isShut = true
    ground.upstream.respond { _ in
      await gate.pass()
      return .scripted(.ok, [.cacheControl: "max-age=60"], String(repeating: " ", count: 2000))
    }
    let later = try await herd(3, ground, gate)
    gate.isShut = false
    for task in later { #expect(await task.value.cacheStatus == "musickit-token-server; fwd=stale") }
    let validations = ground.upstream.requests.suffix(3).map { $0.fields.has("if-none-match") }
    #expect(validations == [true, false, false], "A response that passes through cannot renew a stored one.")
  }

  @Test(
    "a response that may be shared answers all coalesced requests, whether stored or not",
    arguments: ["Cache-Control: max-age=60", "Cache-Control: max-age=0"])
  func forAll(_ line: String) async throws {
    let gate = Gate()
    let fields = Self.fields(line)
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.ok, fields)
    }
    let tasks = try await herd(50, ground, gate)
    gate.isShut = false
    for task in tasks { #expect(await task.value.status == 200) }
    #expect(ground.upstream.requests.count == 1)
  }

  @Test("only-if-cached keeps a request from Apple, also with no-store")
  func onlyIfCached() async throws {
    let ground = ProxyGround { _ in .scripted(.ok) }
    for line in ["only-if-cached", "only-if-cached, no-store", "no-store, only-if-cached, no-cache"] {
      let reply = try await ground.ask(Self.song, directives: Sample.request(line))
      #expect(reply.failure?.code == .upstreamTimeout, "\(line)")
    }
    #expect(ground.upstream.requests.isEmpty)
  }

  @Test("a response that may not be shared stops coalescing for its target, for 30 s or until a response may be shared")
  func later() async throws {
    let gate = Gate()
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.ok, Self.fields("Cache-Control: private"))
    }
    _ = try await ground.ask(Self.song)
    gate.isShut = true
    let call = try ground.call(Self.song)
    let tasks = (0..<10).map { _ in Task { await ground.respond(call) } }
    try await until("each is at the upstream") { ground.upstream.requests.count == 11 }
    gate.isShut = false
    for task in tasks { _ = await task.value }
    #expect(ground.proxy.status.counts.collapsed == 0)

    ground.time.advance(by: .seconds(31))
    for task in try await herd(5, ground, gate) {
      gate.isShut = false
      _ = await task.value
    }
    ground.upstream.respond { _ in
      await gate.pass()
      return .scripted(.ok, Self.fields("Cache-Control: max-age=0"))
    }
    _ = try await ground.ask(Self.song)
    for task in try await herd(5, ground, gate) {
      gate.isShut = false
      _ = await task.value
    }
    let count = ground.upstream.requests.count
    #expect(count == 11 + 5 + 1 + 1)
  }

  @Test(
    "a 304 that may not be shared renews for one caller, and stops coalescing as a response does",
    arguments: ["Cache-Control: private", "Set-Cookie: a=b"])
  func notModifiedForOne(_ line: String) async throws {
    let gate = Gate()
    let ground = ProxyGround { _ in
      .scripted(.ok, [.cacheControl: "max-age=0", .eTag: "\"1\""])
    }
    _ = try await ground.ask(Self.song)
    #expect(ground.proxy.cache.statistics.entries == 1)
    ground.upstream.respond { _ in
      await gate.pass()
      return .scripted(.notModified, Self.fields(line))
    }
    let tasks = try await herd(5, ground, gate)
    gate.isShut = false
    for task in tasks { #expect(await task.value.cacheStatus?.contains("collapsed") == false) }
    #expect(ground.upstream.requests.count == 1 + 5)
    #expect(ground.proxy.cache.statistics.entries == 0)
    ground.upstream.respond { _ in
      await gate.pass()
      return .scripted(.ok, Self.fields(line))
    }
    gate.isShut = true
    let call = try ground.call(Self.song)
    let others = (0..<3).map { _ in Task { await ground.respond(call) } }
    try await until("each is at the upstream") { ground.upstream.requests.count == 6 + 3 }
    gate.isShut = false
    for task in others { _ = await task.value }
  }

  @Test("the next request goes upstream if the first caller has gone")
  func leaderLeft() async throws {
    let gate = Gate()
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.ok, Self.fields("Cache-Control: private"))
    }
    let tasks = try await herd(3, ground, gate)
    tasks[0].cancel()
    _ = await tasks[0].value
    gate.isShut = false
    for task in tasks.dropFirst() { #expect(await task.value.status == 200) }
    #expect(ground.upstream.requests.count == 2)
  }

  @Test("a revalidation counts as one use of a stored response, so the response does not outlive others")
  func oneUse() async throws {
    let ground = ProxyGround({ $0.cache.maxBytes = 400_000 }) { request in
      .scripted(.ok, Self.fields("Cache-Control: max-age=10"), String(repeating: "x", count: 1000))
    }
    func request(_ target: String) async throws {
      let call = try ground.call(target)
      if ground.proxy.respondImmediately(call, refresh: {}) == nil { _ = await ground.respond(call) }
    }
    try await request(Self.song)
    ground.time.advance(by: .seconds(3600))
    // The revalidation looks into the cache before the request goes upstream, and again when the request has its
    // turn.
    try await request(Self.song)
    #expect(ground.upstream.requests.count == 2)
    for other in 2..<600 { try await request("/v1/catalog/us/songs/\(other)") }
    let key = try ground.call(Self.song).key
    let now = ground.time.clock.now
    let lookup = ground.proxy.cache.lookup(key, sending: [:], request: RequestDirectives(), now: now)
    guard case .miss = lookup else {
      Issue.record("The response is kept: \(lookup)")
      return
    }
  }
}
