import HTTP1
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("The shares of callers in the cache")
struct CacheShareTests {
  private static func key(_ owner: Int, _ number: Int) -> CacheKey {
    CacheKey("/v1/catalog/us/albums/\(owner)-\(number)")
  }

  /// One caller of one client.
  private struct Caller {
    var client: UInt64 = 0
    let number: UInt64

    var owner: CacheOwner { CacheOwner(client: client, caller: number) }
  }

  /// A store of about 370 responses, and callers that use it.
  private struct Scene {
    var store: ResponseStore
    let response: StoredResponse
    var now = 0

    init() throws {
      response = try Sample.response(body: Sample.json(2000))
      store = ResponseStore(maxBytes: 370 * (response.cost + 320))
    }

    /// Requests a key. Returns whether it was stored.
    mutating func request(_ key: CacheKey, by caller: Caller) -> Bool {
      guard store.find(key, now: now).isEmpty else { return true }
      store.put([response], for: key, of: caller.owner)
      return false
    }

    /// Requests a caller's own keys in turn. Returns how many of the requests the store answered.
    mutating func requestAll(_ count: Int, by caller: Caller) -> Int {
      (0..<count).count { request(CacheShareTests.key(Int(caller.number), $0), by: caller) }
    }
  }

  @Test(
    "keep a caller's responses during the crawls of two others, however often these request each key",
    arguments: [1, 2, 4, 8])
  func crawl(times: Int) throws {
    var scene = try Scene()
    let modest = Caller(number: 1)
    for _ in 0..<4 { _ = scene.requestAll(100, by: modest) }
    var (hits, next) = (0, 0)
    for _ in 0..<20 {
      // A crawl of more than the whole store between two requests for the same key.
      for _ in 0..<500 {
        for crawler in [2, 3] {
          for _ in 0..<times { _ = scene.request(Self.key(crawler, next), by: Caller(number: UInt64(crawler))) }
        }
        next += 1
      }
      hits += scene.requestAll(100, by: modest)
    }
    #expect(hits >= 1900, "\(hits) of 2000")
  }

  @Test("are equal for clients, however many callers crawl for one of them")
  func clients() throws {
    var scene = try Scene()
    let modest = Caller(client: 1, number: 1)
    for _ in 0..<4 { _ = scene.requestAll(100, by: modest) }
    var hits = 0
    for round in 0..<10 {
      for number in 0..<1000 {
        let crawler = Caller(client: 2, number: UInt64(100 + number % 40))
        for _ in 0..<4 { _ = scene.request(Self.key(1000 + round, number), by: crawler) }
      }
      hits += scene.requestAll(100, by: modest)
    }
    #expect(hits >= 950, "\(hits) of 1000")
  }

  @Test("leave everything to a caller without others, and to callers that want less than all")
  func alone() throws {
    var scene = try Scene()
    for _ in 0..<5 { _ = scene.requestAll(300, by: Caller(number: 1)) }
    #expect(scene.requestAll(300, by: Caller(number: 1)) == 300)
    for _ in 0..<5 { _ = scene.requestAll(20, by: Caller(number: 2)) }
    #expect(scene.requestAll(300, by: Caller(number: 1)) == 300)
    #expect(scene.requestAll(20, by: Caller(number: 2)) == 20)
  }

  @Test("give a caller's room to others when it has requested nothing for five minutes", arguments: [299, 300])
  func aging(seconds: Int) throws {
    var scene = try Scene()
    for caller in 0..<10 { for _ in 0..<4 { _ = scene.requestAll(35, by: Caller(number: UInt64(caller))) } }
    scene.now = seconds * 1_000_000_000
    for round in 0..<100 {
      // A popular set that changes: every key is requested four times, and never again.
      for number in 0..<20 {
        for _ in 0..<4 { _ = scene.request(Self.key(100 + round, number), by: Caller(number: UInt64(11 + number % 2))) }
      }
    }
    let left = (0..<10).reduce(0) { sum, caller in
      sum + (0..<35).count { !scene.store.peek(Self.key(caller, $0)).isEmpty }
    }
    #expect(seconds < 300 ? left > 250 : left < 35, "\(left)")
    #expect(scene.store.bytes == scene.store.recountedBytes)
  }
}
