import Bytes
import Testing

@testable import UpstreamAdmission

@Suite("A request that several callers wait for")
struct FurtherPlaceTests {
  private typealias Limit = ConcurrencyLimit<String>

  private static func caller(_ client: String, _ prefix: String = "") -> QuotaCaller {
    QuotaCaller(client: HashedText(client), share: QuotaCaller.usualShare, identity: ByteString(prefix))
  }

  /// A limit of eight, of which the greedy client has its seven in flight.
  private static func limit() -> (Limit, [ConcurrencyPermit]) {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.maximum) = (8, 8)
    var limit = Limit(limits)
    let permits = (0..<7).compactMap { number -> ConcurrencyPermit? in
      let request = Limit.Request(caller("greedy", "\(number % 2)"))
      return if case .granted(let permit) = limit.acquire(request, waiter: "", now: .zero) { permit } else { nil }
    }
    return (limit, permits)
  }

  private static func wait(
    _ waiter: String, _ caller: QuotaCaller, in limit: inout Limit, now: Duration = .zero
  ) throws -> QueueTicket {
    let admission = limit.acquire(.init(caller), waiter: waiter, now: now)
    guard case .queued(let ticket) = admission else { throw Unexpected(admission: "\(admission)") }
    return ticket
  }

  private struct Unexpected: Error {
    let admission: String
  }

  @Test("is sent at once if a caller that joins may send at once, and that caller pays")
  func atOnce() throws {
    var (limit, permits) = Self.limit()
    let ticket = try Self.wait("popular", Self.caller("greedy"), in: &limit)
    let place = limit.addPlace(for: ticket, of: .init(Self.caller("modest")), now: .zero)
    let grant = try #require(place)
    #expect(grant.waiter == "popular" && grant.permit.caller == Self.caller("modest"))
    #expect(limit.waiting == 0 && !limit.isWaiting(ticket) && limit.inFlight == 8)
    // The greedy client's next turn is for a request of its own.
    _ = try Self.wait("own", Self.caller("greedy"), in: &limit)
    #expect(limit.release(permits[0], .answered, now: .zero).map(\.waiter) == ["own"])
    #expect(limit.release(grant.permit, .answered, now: .zero).isEmpty)
    #expect(limit.inFlight == 7)
  }

  @Test(
    "takes the turn that comes first, once, and its caller pays",
    arguments: ["greedy", "modest"])
  func first(whose: String) throws {
    var (limit, permits) = Self.limit()
    // With a share of one request, the modest client has to wait for its own.
    let caller = QuotaCaller(
      client: "modest", share: whose == "modest" ? QuotaCaller.usualShare : 0.01, identity: ByteString(""))
    let place = limit.acquire(.init(caller), waiter: "", now: .zero)
    guard case .granted(let modest) = place else { throw Unexpected(admission: "\(place)") }
    let ticket = try Self.wait("popular", Self.caller("greedy"), in: &limit)
    for _ in 0..<2 { #expect(limit.addPlace(for: ticket, of: .init(caller), now: .zero) == nil) }
    #expect(limit.waiting == 1 && limit.queues.count == 2)
    let grants = limit.release(whose == "modest" ? modest : permits[0], .answered, now: .zero)
    #expect(grants.map(\.waiter) == ["popular"] && grants.map(\.permit.caller.client.text) == [whose])
    #expect(limit.waiting == 0 && limit.queues.count == 0 && limit.shared.isEmpty && limit.order.isEmpty)
    for permit in permits.dropFirst() { #expect(limit.release(permit, .answered, now: .zero).isEmpty) }
  }

  @Test("leaves all its places when it is cancelled")
  func cancelled() throws {
    var (limit, permits) = Self.limit()
    guard case .granted(let modest) = limit.acquire(.init(Self.caller("modest")), waiter: "", now: .zero) else {
      return
    }
    let ticket = try Self.wait("popular", Self.caller("greedy"), in: &limit)
    for number in 0..<20 {
      let caller = Self.caller("modest", "\(number)")
      #expect(limit.addPlace(for: ticket, of: .init(caller), now: .zero) == nil)
    }
    #expect(limit.waiting == 1 && limit.queues.count == 21)
    #expect(limit.cancel(ticket) == "popular")
    #expect(limit.cancel(ticket) == nil)
    #expect(limit.waiting == 0 && limit.queues.count == 0 && limit.shared.isEmpty)
    for permit in permits + [modest] { #expect(limit.release(permit, .answered, now: .zero).isEmpty) }
    #expect(limit.known.isEmpty && limit.inFlight == 0)
  }

  @Test("makes no other request wait longer by the places of a thousand callers")
  func noInflation() throws {
    var (limit, permits) = Self.limit()
    let now = Duration.milliseconds(200)
    guard case .granted = limit.acquire(.init(Self.caller("modest")), waiter: "", now: .zero) else { return }
    _ = limit.release(permits[0], .answered, now: now)
    guard case .granted = limit.acquire(.init(Self.caller("greedy", "0")), waiter: "", now: now) else { return }
    let ticket = try Self.wait("popular", Self.caller("greedy"), in: &limit, now: now)
    for number in 0..<1000 {
      _ = limit.addPlace(for: ticket, of: .init(Self.caller("modest", "\(number)")), now: now)
    }
    #expect(limit.queues.count > 500 && limit.waiting == 1)
    // Eight requests of 200 ms each are in flight, and one waits: the next is sent within a second.
    for client in ["modest", "another"] {
      var request = Limit.Request(Self.caller(client, "next"))
      request.patience = .seconds(1)
      let admission = limit.acquire(request, waiter: client, now: now)
      guard case .queued = admission else { throw Unexpected(admission: "\(admission)") }
    }
  }

  @Test("waits as before if a caller that joins would be refused")
  func refused() throws {
    var (limit, permits) = Self.limit()
    let now = Duration.seconds(4)
    guard case .granted = limit.acquire(.init(Self.caller("modest")), waiter: "", now: .zero) else { return }
    _ = limit.release(permits[0], .answered, now: now)
    guard case .granted = limit.acquire(.init(Self.caller("greedy", "0")), waiter: "", now: now) else { return }
    let ticket = try Self.wait("popular", Self.caller("greedy"), in: &limit, now: now)
    var request = Limit.Request(Self.caller("modest"))
    request.patience = .milliseconds(1)
    #expect(limit.addPlace(for: ticket, of: request, now: now) == nil)
    #expect(limit.queues.count == 1 && limit.shared.isEmpty)
    #expect(limit.release(permits[1], .answered, now: now).map(\.waiter) == ["popular"])
    #expect(limit.addPlace(for: ticket, of: .init(Self.caller("another")), now: now) == nil)
    #expect(limit.inFlight == 8)
  }
}
