import Testing

@testable import DeveloperToken

@Suite("The cache of tokens")
struct TokenCacheTests {
  private static let minted = 1_000_000
  private static let expires = 1_003_600
  private static let half = 1_001_800

  enum Decision { case reuse, renew, mint }

  static let decisions: [(label: String, now: Int, decision: Decision)] = [
    ("at once", minted, .reuse),
    ("a second before half its life", half - 1, .reuse),
    ("at half its life", half, .renew),
    ("a second after half its life", half + 1, .mint),
    ("at its end", expires, .mint),
    ("long after its end", .max, .mint),
    ("when the clock went back by a second", minted - 1, .mint),
    ("when the clock went back to 1970", 0, .mint),
    ("when the clock is nonsense", .min, .mint),
  ]

  @Test("reuses, renews or mints a token by its age", arguments: decisions)
  func decision(label: String, now: Int, decision: Decision) throws {
    var cache = try cache(mintedAt: Self.minted, ttl: Self.expires - Self.minted)
    switch cache.request(key(1), now: now) {
    case .take: #expect(decision == .reuse)
    case .sign(let present): #expect(decision == (present == nil ? .mint : .renew))
    case .wait: #expect(Bool(false), "no caller signs")
    }
  }

  @Test(
    "reuses a token of any lifetime only while at least half of the lifetime is left",
    arguments: [60, 61, 3600, 3601, 43_200])
  func halfLeft(ttl: Int) throws {
    var cache = try cache(mintedAt: 0, ttl: ttl)
    for now in 0...ttl {
      guard case .take = cache.request(key(1), now: now) else { continue }
      #expect(2 * (ttl - now) >= ttl)
    }
  }

  @Test(
    "renews a token some time before half its life if that is wanted, and gives callers the present one",
    arguments: [(60, 7), (3600, 450), (43_200, 600)])
  func ahead(ttl: Int, lead: Int) throws {
    var cache = try cache(mintedAt: 0, ttl: ttl)
    let time = ttl / 2 - lead
    guard case .take = cache.request(key(1), now: time - 1, renewsAhead: true),
      case .take = cache.request(key(1), now: time),
      case .sign(_?) = cache.request(key(1), now: time, renewsAhead: true),
      case .take = cache.request(key(1), now: time, renewsAhead: true)
    else { return #expect(Bool(false), "the token is renewed at another time") }
  }

  @Test("keeps its tokens when it grows, and has room for more")
  func grows() throws {
    var cache = TokenCache(capacity: 1)
    for number in 1...3 {
      _ = cache.request(key(number), now: 0)
      cache.finish(key(number), try document(0))
      if number == 1 { cache.grow(to: 2) }
    }
    let isKept = (1...3).map { number in
      if case .take = cache.request(key(number), now: 0) { true } else { false }
    }
    #expect(cache.count == 2 && isKept == [false, true, true])
  }

  private func cache(mintedAt: Int, ttl: Int) throws -> TokenCache {
    var cache = TokenCache(capacity: 4)
    _ = cache.request(key(1), now: mintedAt)
    cache.finish(key(1), try document(mintedAt, ttl: ttl))
    return cache
  }

  private func document(_ mintedAt: Int, ttl: Int = 3600) throws -> TokenDocument {
    let claims = Claims(issuer: try Samples.team(), issuedAt: mintedAt, expiresAt: mintedAt + ttl, origins: [])
    let token = try MintedToken(compact: Array("\(mintedAt)".utf8), claims: claims, mintedAt: mintedAt)
    return TokenDocument(token, now: mintedAt)
  }

  private func key(_ ttl: Int) -> TokenCache.Key { TokenCache.Key(ttl: ttl, origins: []) }

  @Test("lets one caller sign the first token while the others wait")
  func firstToken() throws {
    var cache = TokenCache(capacity: 4)
    guard case .sign(nil) = cache.request(key(1), now: 0) else { return #expect(Bool(false), "the first signs") }
    guard case .wait = cache.request(key(1), now: 0) else { return #expect(Bool(false), "the second waits") }
    guard case .sign(nil) = cache.request(key(2), now: 0) else { return #expect(Bool(false), "other claims sign") }
    cache.finish(key(1), try document(0))
    guard case .take(let taken) = cache.request(key(1), now: 0) else { return #expect(Bool(false), "then all take it") }
    #expect(taken.token.mintedAt == 0)
  }

  @Test("lets one caller renew a token while the others get the present token")
  func renewal() throws {
    var cache = TokenCache(capacity: 4)
    _ = cache.request(key(1), now: 0)
    cache.finish(key(1), try document(0))
    guard case .sign(.some) = cache.request(key(1), now: 1800) else { return #expect(Bool(false), "one renews") }
    guard case .take(let present) = cache.request(key(1), now: 1800) else {
      return #expect(Bool(false), "nobody waits")
    }
    #expect(present.token.mintedAt == 0 && present.token.refreshAfter >= 1800)
    cache.finish(key(1), try document(1800))
    guard case .take(let renewed) = cache.request(key(1), now: 1800) else { return #expect(Bool(false)) }
    #expect(renewed.token.mintedAt == 1800)
  }

  @Test("shows each caller the time that is left", arguments: [[0, 1, 1799], [9, 9, 3]])
  func times(_ moments: [Int]) throws {
    var cache = TokenCache(capacity: 4)
    _ = cache.request(key(1), now: 0)
    cache.finish(key(1), try document(0))
    for now in moments {
      guard case .take(let document) = cache.request(key(1), now: now) else { return #expect(Bool(false), "\(now)") }
      #expect(document.now == now && document.token.mintedAt == 0)
      #expect(String(decoding: document.json, as: UTF8.self).contains(#""expiresIn":\#(3600 - now),"#))
    }
    guard case .sign(.some(let present)) = cache.request(key(1), now: 1800) else { return #expect(Bool(false)) }
    #expect(present.now == 1800 && present.json == TokenDocument(present.token, now: 1800).json)
  }

  @Test("lets the next caller sign after a signature failed")
  func failure() throws {
    var cache = TokenCache(capacity: 4)
    _ = cache.request(key(1), now: 0)
    cache.finish(key(1), nil)
    guard case .sign(nil) = cache.request(key(1), now: 0) else { return #expect(Bool(false)) }
    #expect(cache.count == 0)
  }

  @Test("evicts the least recently used token and never exceeds its capacity", arguments: [1, 2, 3, 7])
  func bounded(capacity: Int) throws {
    var cache = TokenCache(capacity: capacity)
    var recent: [Int] = []
    for step in 0..<500 {
      let ttl = (step * step * 7 + step / 3) % 11
      let isKnown = recent.contains(ttl)
      switch cache.request(key(ttl), now: 0) {
      case .take: #expect(isKnown)
      case .sign:
        #expect(!isKnown)
        cache.finish(key(ttl), try document(0))
      case .wait: #expect(Bool(false), "nobody else signs")
      }
      recent.removeAll { $0 == ttl }
      recent = Array((recent + [ttl]).suffix(capacity))
      #expect(cache.count == recent.count)
    }
  }
}
