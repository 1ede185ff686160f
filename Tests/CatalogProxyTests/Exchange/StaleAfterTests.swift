import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import HTTPCache

@Suite("While Apple is slow")
struct StaleAfterTests {
  private static let song = "/v1/catalog/us/songs/1"

  /// A proxy with a stored response that is stale by now, whose upstream waits for the gate.
  private func staleGround(_ gate: Gate, control: String = "max-age=10") async throws -> ProxyGround {
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.ok, [.cacheControl: control], "{\"old\":1}")
    }
    _ = try await ground.ask(Self.song)
    ground.time.advance(by: .seconds(60))
    gate.isShut = true
    ground.upstream.respond { _ in
      await gate.pass()
      return .scripted(.ok, [.cacheControl: control], "{\"new\":1}")
    }
    return ground
  }

  private func body(_ reply: CatalogReply) -> String? {
    guard case .response(let response) = reply else { return nil }
    return String(decoding: response.body, as: UTF8.self)
  }

  @Test("a 304 that forbids storage ends it, and the caller is not told that the response is stored")
  func forbidden() async throws {
    let ground = ProxyGround { _ in .scripted(.ok, [.cacheControl: "max-age=10", .eTag: "\"1\""], "{\"a\":1}") }
    _ = try await ground.ask(Self.song)
    ground.time.advance(by: .seconds(60))
    ground.upstream.respond { _ in .scripted(.notModified, [.cacheControl: "no-store"], "") }
    let reply = try await ground.ask(Self.song)
    #expect(reply.status == 200 && body(reply) == "{\"a\":1}")
    #expect(reply.cacheStatus == "musickit-token-server; fwd=stale; fwd-status=304")
    #expect(ground.proxy.cache.statistics.entries == 0)
  }

  @Test("a caller gets the stale response after 500 ms, marked in Cache-Status, and the fetch continues and is stored")
  func stale() async throws {
    let gate = Gate()
    let ground = try await staleGround(gate)
    let call = try ground.call(Self.song)
    let first = Task { await ground.respond(call) }
    try await until("it is asked for, and the wait is bounded") {
      ground.upstream.requests.count == 2 && ground.time.pauses == 1
    }
    ground.time.advance(by: .milliseconds(499))
    #expect(ground.proxy.status.counts.staleWhileWaiting == 0)
    ground.time.advance(by: .milliseconds(1))
    let reply = await first.value
    #expect(reply.status == 200 && body(reply) == "{\"old\":1}")
    #expect(reply.cacheStatus == "musickit-token-server; fwd=stale; ttl=-50; detail=\"stale-after\"")
    if case .response(let response) = reply {
      #expect(response.encoded.fields[.age] == "60" && response.fields[.proxyStatus] == nil)
    }

    // The next caller does not wait for 500 ms and starts no second fetch.
    let second = await ground.respond(call)
    #expect(body(second) == "{\"old\":1}")
    #expect(ground.upstream.requests.count == 2)
    #expect(ground.proxy.status.counts.staleWhileWaiting == 2)

    gate.isShut = false
    try await until("the response is stored") {
      guard case .response(let response)? = ground.proxy.respondImmediately(call, refresh: {}) else { return false }
      return String(decoding: response.body, as: UTF8.self) == "{\"new\":1}"
    }
    #expect(ground.upstream.requests.count == 2)
  }

  @Test("a caller gets Apple's response if that arrives before 500 ms")
  func inTime() async throws {
    let gate = Gate()
    let ground = try await staleGround(gate)
    let call = try ground.call(Self.song)
    let task = Task { await ground.respond(call) }
    try await until("the wait is bounded") { ground.time.pauses == 1 }
    ground.time.advance(by: .milliseconds(400))
    gate.isShut = false
    #expect(body(await task.value) == "{\"new\":1}")
    try await until("the pause has ended") { ground.time.pauses == 0 }
  }

  @Test(
    "a caller waits for Apple if the request or the stored response forbids a stale response",
    arguments: [
      ("no-cache", "max-age=10"), ("max-age=0", "max-age=10"), ("min-fresh=1", "max-age=10"),
      ("stale-if-error=1", "max-age=10"), ("", "max-age=10, must-revalidate"), ("", "s-maxage=10"),
      ("", "max-age=10, stale-if-error=1"),
    ])
  func strict(_ request: String, _ control: String) async throws {
    let gate = Gate()
    let ground = try await staleGround(gate, control: control)
    let call = try ground.call(Self.song, directives: Sample.request(request))
    let task = Task { await ground.respond(call) }
    try await until("it is asked for") { ground.upstream.requests.count == 2 }
    #expect(ground.time.pauses == 0)
    gate.isShut = false
    #expect(body(await task.value) == "{\"new\":1}")
  }

  @Test("a caller gets a response after a fetch without callers has failed")
  func failure() async throws {
    let gate = Gate()
    let ground = try await staleGround(gate)
    let call = try ground.call(Self.song)
    let first = Task { await ground.respond(call) }
    try await until("the wait is bounded") { ground.time.pauses == 1 }
    ground.time.advance(by: .milliseconds(500))
    _ = await first.value
    ground.upstream.respond { _ in .scripted(.init(code: 503)) }
    gate.isShut = false
    let reply = await ground.respond(call)
    #expect(body(reply) != nil)
  }

  @Test("a background revalidation runs once, however long it takes")
  func background() async throws {
    let gate = Gate()
    let ground = try await staleGround(gate, control: "max-age=10, stale-while-revalidate=600")
    let call = try ground.call(Self.song)
    var refreshes: [OneShot<Void>] = []
    for _ in 0..<3 {
      let reply = ground.proxy.respondImmediately(call) {
        let refresh = OneShot<Void>()
        refreshes.append(refresh)
        ground.proxy.refresh(call, for: .only("client"), by: ground.route) { refresh.resume(()) }
      }
      #expect(reply?.cacheStatus?.contains("; hit") == true)
      try await until("it is asked for") { ground.upstream.requests.count == 2 }
      ground.time.advance(by: .seconds(1))
    }
    #expect(refreshes.count == 1)
    gate.isShut = false
    for refresh in refreshes { await refresh.get() }
    #expect(ground.upstream.requests.count == 2)
  }

  @Test("an unsolicited 206 or 304 becomes a 502, is never stored, and a stale response replaces it")
  func unsolicited() async throws {
    let ground = ProxyGround { _ in .scripted(.ok, [.cacheControl: "max-age=10"], "{\"old\":1}") }
    _ = try await ground.ask(Self.song)
    ground.time.advance(by: .seconds(60))
    for status in [206, 304] {
      for fields in [[:], [.contentRange: "bytes 0-1/9", .cacheControl: "max-age=99"]] as [FieldLines] {
        ground.upstream.respond { _ in .scripted(.init(code: status), fields, "{}") }
        let stale = try await ground.ask(Self.song)
        #expect(stale.status == 200 && stale.cacheStatus?.contains("stale-if-error") == true)
        for (target, control) in [("/v1/catalog/us/songs/2", ""), (Self.song, "no-store"), ("/v1/test", "")] {
          let reply = try await ground.ask(target, directives: Sample.request(control))
          #expect(
            reply.failure?.code == .upstreamError
              && reply.failure?.fields[.proxyStatus]?.contains("received-status=\(status);") == true)
        }
      }
    }
    #expect(ground.proxy.cache.statistics.entries == 1)
  }

  @Test(
    "a call that is not forwarded gets a stale response if that may replace an error, and needs no request",
    arguments: [
      ("max-age=10", "", true), ("max-age=10, must-revalidate", "", false), ("max-age=10", "no-cache", false),
    ])
  func unforwarded(_ control: String, _ directive: String, _ isServed: Bool) async throws {
    let gate = Gate()
    let ground = try await staleGround(gate, control: control)
    let call = try ground.call(Self.song, directives: Sample.request(directive))
    let reply = ground.proxy.staleReply(to: call)
    #expect((reply != nil) == isServed)
    #expect(ground.proxy.status.counts.staleOnError == (isServed ? 1 : 0))
    #expect(ground.upstream.requests.count == 1)
    guard let reply else { return }
    #expect(reply.status == 200 && body(reply) == "{\"old\":1}")
    #expect(reply.cacheStatus == "musickit-token-server; hit; ttl=-50; detail=\"stale-if-error\"")
    #expect(ground.proxy.staleReply(to: try ground.call("/v1/catalog/us/songs/2")) == nil)
  }
}
