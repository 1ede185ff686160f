import HTTP1
import HTTPMessages
import HTTPTypes
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
    let call = try ground.call(target, by: "gone", user: user, directives: Sample.request(control))
    let gone = Task { await ground.respond(call) }
    try await until("it is at the upstream") { ground.upstream.requests.count == 1 }
    gone.cancel()
    guard case .cancelled = await gone.value else { return #expect(Bool(false), "The caller waits.") }
    let later = try ground.call("/v1/catalog/us/songs/2", by: "later")
    let next = Task { await ground.respond(later) }
    try await until("the next one waits") { ground.proxy.status.waiting == 1 }
    #expect(ground.proxy.status.inFlight == 1)
    gate.isShut = false
    #expect(await next.value.status == 200)
    #expect(ground.upstream.requests.count == 2)
    try await until("no turn is taken") { ground.proxy.status.inFlight == 0 }
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
}
