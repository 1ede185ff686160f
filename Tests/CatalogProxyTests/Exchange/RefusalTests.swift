import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("A 429 from Apple")
struct RefusalTests {
  private static let song = "/v1/catalog/us/songs/1"

  @Test(
    "Retry-After is read as seconds or as an HTTP-date, and any other value is ignored",
    arguments: [
      ("0", 0), ("7", 7), ("99999999999999999999999", 86_400), ("Sun, 06 Nov 1994 08:49:40 GMT", 3),
      ("Sun, 06 Nov 1994 08:49:30 GMT", 0), ("Sunday, 06-Nov-94 08:49:40 GMT", 3), ("", nil), ("-1", nil), ("1.5", nil),
      ("soon", nil),
    ] as [(String, Int?)])
  func retryAfter(_ text: String, seconds: Int?) {
    // 784111777 is 08:49:37 on that day (RFC 9110 §5.6.7).
    #expect(Duration(retryAfter: text, now: 784_111_777) == seconds.map { .seconds($0) })
  }

  @Test("a 429 from Apple is counted only for the client that sent the request")
  func counts() async throws {
    let ground = ProxyGround { $0.target == Self.song ? .scripted(.tooManyRequests, [.retryAfter: "90"]) : .scripted() }
    _ = try await ground.ask("/v1/catalog/us/songs/2", by: "modest")
    #expect(try await ground.ask(Self.song, by: "greedy").failure?.code == .upstreamRateLimited)
    let status = ground.proxy.status
    #expect(status.clients["greedy"] == ClientCounts(attempts: 1, limited: 1))
    #expect(status.clients["modest"] == ClientCounts(attempts: 1, limited: 0))
    #expect(status.counts.limited == 1 && status.recentRefusals == 1)
  }

  @Test("a 429 to /v1/test pauses requests and is counted like any other")
  func test() async throws {
    let ground = ProxyGround {
      $0.target == "/v1/test" ? .scripted(.tooManyRequests, [.retryAfter: "5"]) : .scripted(.unauthorized)
    }
    #expect(ground.proxy.status.rate == nil)
    _ = try await ground.ask("/v1/me/library/songs", user: "user")
    #expect(ground.proxy.status.rate != nil && ground.proxy.status.isPaused)
    #expect(ground.proxy.status.counts.limited == 1)
    ground.time.advance(by: .seconds(4))
    #expect(ground.proxy.status.isPaused)
    ground.time.advance(by: .seconds(2))
    #expect(!ground.proxy.status.isPaused)
  }

  @Test("a request that is retried after a 429 goes before the waiting requests of other clients")
  func headOfQueue() throws {
    var limit = ConcurrencyLimit<Int>()
    func request(_ client: String, isRetry: Bool = false) -> ConcurrencyLimit<Int>.Request {
      var request = ConcurrencyLimit<Int>.Request(
        QuotaCaller(client: HashedText(client), share: QuotaCaller.usualShare, identity: "caller"))
      request.isRetry = isRetry
      return request
    }
    // The second 429 arrives when a rate is known already, right after the modest client had its turn.
    for now in [Duration.zero, .seconds(2)] {
      guard case .granted(let permit) = limit.acquire(request("modest"), waiter: 0, now: now) else {
        Issue.record("not granted")
        return
      }
      if now > .zero {
        for (client, waiter) in [("greedy", 1), ("greedy", 2), ("other", 3)] {
          _ = limit.acquire(request(client), waiter: waiter, now: now)
        }
      }
      #expect(limit.release(permit, .limited(retryAfter: nil), now: now + .milliseconds(10)).isEmpty)
    }
    _ = limit.acquire(request("modest", isRetry: true), waiter: 5, now: .milliseconds(2013))
    var served: [Int] = []
    for _ in 0..<10 {
      guard let opening = limit.opening else { break }
      // The opening is a whole number of nanoseconds, so one millisecond is added.
      let now = opening + .milliseconds(1)
      for grant in limit.advance(now: now) {
        served.append(grant.waiter)
        _ = limit.release(grant.permit, .answered, now: now)
      }
    }
    #expect(served.first == 5, "\(served)")
    #expect(served.sorted() == [1, 2, 3, 5])
  }
}
