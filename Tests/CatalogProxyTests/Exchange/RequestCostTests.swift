import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("A request that reaches Apple")
struct RequestCostTests {
  @Test(
    "is not sent again with less than a second left",
    arguments: [(28, 2, .upstreamError), (29.5, 1, .upstreamTimeout)] as [(Double, Int, ErrorCode)])
  func late(seconds: Double, attempts: Int, code: ErrorCode) async throws {
    let time = Locked<ManualTime?>(nil)
    let ground = ProxyGround { _ throws(UpstreamError) in
      time.withLock { $0 }?.advance(by: .seconds(seconds))
      throw UpstreamError(.connectionTerminated, .unprocessed, "The connection ended.")
    }
    time.withLock { $0 = ground.time }
    let reply = try await ground.ask("/v1/catalog/us/songs/1")
    #expect(ground.upstream.requests.count == attempts)
    #expect(reply.failure?.code == code)
    #expect(ground.proxy.status.inFlight == 0)
  }

  @Test(
    "costs one turn, however the request bypasses the cache",
    arguments: [
      ("/v1/catalog/us/songs/", "no-cache", nil), ("/v1/catalog/us/songs/", "max-age=0", nil),
      ("/v1/catalog/us/songs/", "no-store", nil), ("/v1/catalog/us/songs?x=", "", nil), ("/v1/test?x=", "", nil),
      ("/v1/catalog/us/songs?relate=library&x=", "", "user"), ("/v1/me/library/songs/", "", "user"),
    ] as [(String, String, String?)])
  func cost(_ prefix: String, _ control: String, _ user: String?) async throws {
    let gate = Gate()
    let ground = ProxyGround({ $0.concurrency.maximum = 1 }) { _ in
      await gate.pass()
      return .scripted()
    }
    for round in 0..<4 { _ = try await ground.ask("/v1/catalog/us/songs/\(round)") }
    ground.time.advance(by: .seconds(1))
    let before = ground.upstream.requests.count
    gate.isShut = true
    var tasks: [Task<CatalogReply, Never>] = []
    for round in 0..<4 {
      let directives = Sample.request(control)
      let bypassing = try ground.call("\(prefix)\(round)", user: user, directives: directives)
      let plain = try ground.call("/v1/catalog/us/albums/\(round)")
      for (call, client) in [(bypassing, "bypassing"), (plain, "plain")] {
        tasks.append(Task { await ground.respond(call, to: client) })
        try await until("it is at the upstream, or waits") {
          ground.upstream.requests.count + ground.proxy.status.waiting == before + tasks.count
        }
      }
    }
    gate.isShut = false
    for task in tasks { #expect(await task.value.status == 200) }
    // The clients take turns one by one, so neither pays more than the other.
    let isPlain = ground.upstream.targets.dropFirst(before).map { $0.contains("/albums/") }
    #expect(isPlain == [false, true, false, true, false, true, false, true], "\(ground.upstream.targets)")
  }
}
