import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import HTTPCache

@Suite("A 401 from Apple")
struct TokenDoubtTests {
  private static let song = "/v1/catalog/us/songs/1"

  /// Apple refuses every user token, whether the developer token is valid or not.
  private static func refusesUsers(_ request: UpstreamRequest) -> UpstreamResponse {
    let hasUserToken = request.fields.has("music-user-token")
    return .scripted(hasUserToken ? .unauthorized : .ok)
  }

  @Test(
    "a 401 to an invalid music user token does not reject the developer token",
    arguments: ["/v1/me/library/songs", "\(song)?relate=library"])
  func users(_ target: String) async throws {
    let ground = ProxyGround { Self.refusesUsers($0) }
    for _ in 0..<3 {
      #expect(try await ground.ask(target, user: "invalid").status == 401)
      #expect(!ground.proxy.status.isTokenRejected)
    }
    #expect(ground.upstream.targets == [target, "/v1/test", target, target], "/v1/test is asked once")
    #expect(try await ground.ask(Self.song).status == 200)
    #expect(ground.notices.isEmpty)
  }

  @Test("an accepted developer token is rejected no longer")
  func cleared() async throws {
    let ground = ProxyGround { _ in .scripted(.unauthorized) }
    #expect(try await ground.ask(Self.song).failure?.code == .developerTokenRejected)
    #expect(ground.proxy.status.isTokenRejected)
    ground.upstream.respond { Self.refusesUsers($0) }
    #expect(try await ground.ask(Self.song).status == 200)
    #expect(!ground.proxy.status.isTokenRejected)
    for _ in 0..<2 { #expect(try await ground.ask("/v1/me/library/songs", user: "invalid").status == 401) }
  }

  @Test("a 401 to one path or query does not reject the token if /v1/test accepts it")
  func path() async throws {
    let ground = ProxyGround { .scripted($0.target.text.hasPrefix(Self.song) ? .unauthorized : .ok) }
    for index in 0..<50 {
      let failure = try await ground.ask("\(Self.song)?x=\(index)").failure
      #expect(failure?.code == .upstreamError)
      #expect(failure?.fields[.proxyStatus]?.contains("received-status=401;") == true)
      #expect(!ground.proxy.status.isTokenRejected)
    }
    #expect(ground.upstream.targets.count { $0 == "/v1/test" } == 1)
    #expect(ground.proxy.status.counts.tokensMinted == 2)
    #expect(ground.notices.isEmpty)
  }

  @Test(
    "a response that Apple may send before it checks the token does not clear the rejection",
    arguments: [400, 413, 414, 429, 431, 500, 503])
  func early(_ status: Int) async throws {
    let ground = ProxyGround { _ in .scripted(.unauthorized) }
    _ = try await ground.ask(Self.song)
    #expect(ground.proxy.status.isTokenRejected)
    ground.upstream.respond { _ in .scripted(.init(code: status)) }
    let call = try ground.call("/v1/me/ratings/songs/1", user: "user", method: .delete)
    _ = await ground.respond(call)
    #expect(ground.proxy.status.isTokenRejected)
  }

  @Test("many requests share one check at /v1/test, and a cancelled check decides nothing")
  func shared() async throws {
    let ground = ProxyGround { request async throws(UpstreamError) in
      guard request.target == "/v1/test" else { return .scripted(.unauthorized) }
      await waitForCancellation()
      throw UpstreamError(.cancelled, .unanswered, "cancelled")
    }
    let call = try ground.call("/v1/me/library/songs", user: "user")
    let first = Task { await ground.respond(call) }
    try await until("/v1/test is asked") { ground.upstream.targets.contains("/v1/test") }
    let answered = Locked(0)
    let others = (0..<20).map { _ in
      Task {
        defer { answered.withLock { $0 += 1 } }
        return await ground.respond(call)
      }
    }
    try await until("the others wait") { ground.time.pauses == 20 }
    #expect(ground.upstream.targets.count { $0 == "/v1/test" } == 1)
    ground.upstream.respond { .scripted($0.target == "/v1/test" ? .ok : .unauthorized) }
    first.cancel()
    #expect(await first.value.status == nil)
    try await until("they have the result") {
      ground.time.advance(by: .milliseconds(50))
      return ground.upstream.targets.count { $0 == "/v1/test" } == 2
    }
    try await until("all are answered") {
      ground.time.advance(by: .milliseconds(50))
      return answered.withLock { $0 } == others.count
    }
    for other in others { #expect(await other.value.status == 401) }
    #expect(ground.upstream.targets.count { $0 == "/v1/test" } == 2)
  }

  @Test("the first request after a wrong clock is corrected succeeds", arguments: [400, -4000])
  func clock(_ seconds: Int) async throws {
    let ground = ProxyGround { request in
      let date = Sample.date
      return .scripted(abs(request.tokenTime - Sample.start) < 30 ? .ok : .unauthorized, [.date: date])
    }
    ground.time.setWallClock(by: seconds)
    for _ in 0..<2 {
      let detail = try #require(try await ground.ask(Self.song).failure?.detail)
      #expect(detail.contains(seconds > 0 ? "400 s ahead" : "4000 s behind"))
    }
    ground.time.setWallClock(by: -seconds)
    ground.time.advance(by: .seconds(1))
    #expect(try await ground.ask(Self.song).status == 200)
    #expect(!ground.proxy.status.isTokenRejected)
  }

  @Test("a 401 during a correction of the clock is not blamed on the key and team")
  func clockSetMeanwhile() async throws {
    let ground = ProxyGround { _ in .scripted(.unauthorized) }
    ground.upstream.respond { [time = ground.time] request in
      guard abs(request.tokenTime - Sample.start) > 30 else { return .scripted() }
      if time.clock.now.wall > Sample.start + 100 { time.setWallClock(by: -400) }
      return .scripted(.unauthorized, [.date: Sample.date])
    }
    ground.time.setWallClock(by: 400)
    #expect(try await ground.ask(Self.song).status == 200)
    #expect(ground.notices.isEmpty)
  }

  @Test("a request whose caller goes while its token is signed sends nothing, and leaves its turn to others")
  func goneWhileSigning() async throws {
    let ground = ProxyGround { _ in .scripted() }
    ground.signs.withLock { $0 = false }
    let call = try ground.call(Self.song)
    let asking = Task { await ground.respond(call) }
    try await until("the signer is asked") { ground.mints == 1 }
    asking.cancel()
    guard case .cancelled = await asking.value else { return #expect(Bool(false)) }
    #expect(ground.proxy.status.inFlight == 1)
    ground.signs.withLock { $0 = true }
    try await until("its turn is free") { ground.proxy.status.inFlight == 0 }
    #expect(ground.proxy.status.counts.attempts == 0 && ground.upstream.requests.isEmpty)
  }

  @Test("a request whose token comes too late sends nothing, and leaves its turn to others")
  func lateToken() async throws {
    let ground = ProxyGround { _ in .scripted() }
    ground.signs.withLock { $0 = false }
    async let reply = ground.ask(Self.song)
    try await until("the signer is asked") { ground.mints == 1 }
    ground.time.advance(by: .seconds(30))
    ground.signs.withLock { $0 = true }
    let failure = try #require(try await reply.failure)
    #expect(failure.code == .noSigningKey && failure.fields[.retryAfter] == "5")
    #expect(ground.proxy.status.inFlight == 0 && ground.proxy.status.counts.attempts == 0)
    #expect(ground.upstream.requests.isEmpty)
  }

  @Test("a token that comes too late for the first caller serves one that has come later")
  func lateTokenOfAnother() async throws {
    let ground = ProxyGround { _ in .scripted() }
    ground.signs.withLock { $0 = false }
    async let first = ground.ask(Self.song)
    try await until("the signer is asked") { ground.mints == 1 }
    ground.time.advance(by: .seconds(20))
    async let second = ground.ask(Self.song)
    try await until("the second caller waits") { ground.proxy.status.counts.collapsed == 1 }
    ground.time.advance(by: .seconds(10))
    ground.signs.withLock { $0 = true }
    #expect(try await first.failure?.code == .noSigningKey)
    #expect(try await second.status == 200)
    #expect(ground.mints == 1)
  }
}
