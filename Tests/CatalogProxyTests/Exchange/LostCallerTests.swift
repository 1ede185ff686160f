import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("A request whose caller goes away after it was sent")
struct LostCallerTests {
  @Test(
    "keeps its turn until Apple has responded",
    arguments: [
      ("/v1/catalog/us/songs/1", "", nil), ("/v1/catalog/us/songs/1", "no-store", nil), ("/v1/test", "", nil),
      ("/v1/me/library/songs/1", "", "user"),
    ] as [(String, String, String?)])
  func turn(_ target: String, _ control: String, _ user: String?) async throws {
    let gate = Gate()
    gate.isShut = true
    let ground = ProxyGround({ $0.concurrency.initial = 1 }) { _ in
      await gate.pass()
      return .scripted(.ok, [.cacheControl: "max-age=60"])
    }
    let call = try ground.call(target, user: user, directives: Sample.request(control))
    let gone = Task { await ground.respond(call, to: "gone") }
    try await until("it is at the upstream") { ground.upstream.requests.count == 1 }
    gone.cancel()
    guard case .cancelled = await gone.value else { return #expect(Bool(false), "The caller waits.") }
    let later = try ground.call("/v1/catalog/us/songs/2")
    let next = Task { await ground.respond(later, to: "later") }
    try await until("the next one waits") { ground.proxy.status.waiting == 1 }
    #expect(ground.proxy.status.inFlight == 1)
    gate.isShut = false
    #expect(await next.value.status == 200)
    #expect(ground.upstream.requests.count == 2)
    try await until("no turn is taken") { ground.proxy.status.inFlight == 0 }
  }

  @Test("is stored all the same")
  func stored() async throws {
    let gate = Gate()
    gate.isShut = true
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.ok, [.cacheControl: "max-age=60"])
    }
    let call = try ground.call("/v1/catalog/us/songs/1")
    let gone = Task { await ground.respond(call) }
    try await until("it is at the upstream") { ground.upstream.requests.count == 1 }
    gone.cancel()
    _ = await gone.value
    gate.isShut = false
    try await until("the response is stored") { ground.proxy.cache.statistics.entries == 1 }
    #expect(await ground.respond(call).cacheStatus?.contains("hit") == true)
    #expect(ground.upstream.requests.count == 1)
  }

  @Test("is not sent again", arguments: ["", "no-store"])
  func again(_ control: String) async throws {
    let gate = Gate()
    gate.isShut = true
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted(.tooManyRequests, [.retryAfter: "0"])
    }
    let call = try ground.call("/v1/catalog/us/songs/1", directives: Sample.request(control))
    let gone = Task { await ground.respond(call) }
    try await until("it is at the upstream") { ground.upstream.requests.count == 1 }
    gone.cancel()
    _ = await gone.value
    gate.isShut = false
    // What Apple says counts all the same.
    try await until("no turn is taken") { ground.proxy.status.inFlight == 0 }
    #expect(ground.proxy.status.counts.limited == 1 && ground.upstream.requests.count == 1)
  }

  @Test("ends the wait of a follower that has a request of its own, because the leader's response is not for others")
  func follower() async throws {
    let (gate, own) = (Gate(), Gate())
    (gate.isShut, own.isShut) = (true, true)
    let sent = Locked(0)
    let ground = ProxyGround { _ in
      let isFirst = sent.withLock { sent in
        sent += 1
        return sent == 1
      }
      await (isFirst ? gate : own).pass()
      return .scripted(.ok, [.cacheControl: "private"])
    }
    let call = try ground.call("/v1/catalog/us/songs/1")
    let leader = Task { await ground.respond(call) }
    try await until("it is at the upstream") { ground.upstream.requests.count == 1 }
    let follower = Task { await ground.respond(call) }
    try await until("the follower has joined") { ground.proxy.status.counts.collapsed == 1 }
    gate.isShut = false
    #expect(await leader.value.status == 200)
    try await until("the follower's own request is at the upstream") { ground.upstream.requests.count == 2 }
    follower.cancel()
    guard case .cancelled = await follower.value else { return #expect(Bool(false), "The caller waits.") }
    #expect(ground.proxy.status.inFlight == 1)
    own.isShut = false
    try await until("no turn is taken") { ground.proxy.status.inFlight == 0 }
  }
}
