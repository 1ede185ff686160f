import Dispatch
import HTTP1
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPCache

@Suite("The store of responses")
struct ResponseStoreTests {
  private static func key(_ number: Int) -> CacheKey { CacheKey("/v1/catalog/us/albums/\(number)") }

  @Test("keeps an album requested now and then during a crawl of 100 000 others")
  func crawl() throws {
    var store = ResponseStore(maxBytes: 4_000_000)
    let response = try Sample.response(body: Sample.json(1000))
    let album = Self.key(1_200_868_601)
    store.put([response], for: album)
    for _ in 0..<2 { #expect(!store.find(album).isEmpty) }
    for other in 0..<100_000 {
      store.put([response], for: Self.key(other))
      if other % 20_000 == 0 { #expect(!store.find(album).isEmpty, "\(other)") }
    }
    #expect(!store.find(album).isEmpty)
    #expect(store.count < 2000)
  }

  @Test("keeps an album during a crawl that requests each other twice, if the album is requested more often")
  func twiceCrawl() throws {
    var store = ResponseStore(maxBytes: 4_000_000)
    let response = try Sample.response(body: Sample.json(1000))
    let album = Self.key(1_200_868_601)
    store.put([response], for: album)
    for _ in 0..<2 { #expect(!store.find(album).isEmpty) }
    for other in 0..<100_000 {
      store.put([response], for: Self.key(other))
      #expect(!store.find(Self.key(other)).isEmpty)
      if other % 1000 == 0 { #expect(!store.find(album).isEmpty, "\(other)") }
    }
  }

  @Test("counts all room for the fields of a response")
  func room() throws {
    var fields: FieldLines = [.date: Sample.date(0), .eTag: "\"a\""]
    let cost = try Sample.response(.ok, fields).cost
    fields.reserveCapacity(2, bytes: 20_000)
    #expect(try Sample.response(.ok, fields).cost >= cost + 19_000)
  }

  @Test("puts an entry that returns soon after its eviction into the main queue")
  func ghost() throws {
    var store = ResponseStore(maxBytes: 200_000)
    let response = try Sample.response(body: Sample.json(1000))
    store.put([response], for: Self.key(0))
    var next = 1
    while store.peek(Self.key(0)).first != nil, next < 10_000 {
      store.put([response], for: Self.key(next))
      next += 1
    }
    #expect(next < 10_000)
    store.put([response], for: Self.key(0))
    for other in next..<next + 1000 { store.put([response], for: Self.key(other)) }
    #expect(store.peek(Self.key(0)).first != nil)
  }

  @Test("evicts unused entries from the main queue when other entries become popular")
  func aging() throws {
    var store = ResponseStore(maxBytes: 400_000)
    let response = try Sample.response(body: Sample.json(1000))
    for round in 0..<5 {
      for number in 0..<100 {
        let key = Self.key(round * 100 + number)
        store.put([response], for: key)
        for _ in 0..<3 { _ = store.find(key) }
      }
    }
    #expect((0..<100).allSatisfy { store.peek(Self.key($0)).isEmpty })
    #expect(store.count > 50)
  }

  @Test("never exceeds its limit and counts its bytes exactly, for any operations", arguments: 0..<4)
  func accounting(seed: UInt64) throws {
    var random = SplitMix(seed: seed)
    let maxBytes = [60_000, 300_000, 1_000_000, 10_000][Int(seed)]
    var store = ResponseStore(maxBytes: maxBytes)
    let responses = try [0, 10, 900, 5000, 20_000, 60_000].map {
      try Sample.response(.ok, [.contentType: "text/plain"], body: Sample.json($0))
    }
    for step in 0..<5000 {
      let key = Self.key(Int.random(in: 0..<200, using: &random))
      switch Int.random(in: 0..<10, using: &random) {
      case 0: store.remove(key)
      case 1...4: _ = store.find(key)
      default:
        let variants = (0..<Int.random(in: 0..<4, using: &random)).compactMap { _ in
          responses.randomElement(using: &random)
        }
        let owner = CacheOwner(client: UInt64.random(in: 0..<3, using: &random), caller: UInt64(step % 5))
        store.put(variants, for: key, of: owner)
        let isStored = !store.peek(key).isEmpty
        #expect(!isStored || store.peek(key).elementsEqual(variants, by: ===))
      }
      #expect(store.bytes <= maxBytes)
      if step % 100 == 0 { #expect(store.bytes == store.recountedBytes) }
    }
    #expect(store.bytes == store.recountedBytes)
    for number in 0..<200 { store.remove(Self.key(number)) }
    #expect(store.bytes == 0 && store.count == 0 && store.recountedBytes == 0)
  }

  @Test("refuses a response larger than its limit, and removes the previous response")
  func tooLarge() throws {
    var store = ResponseStore(maxBytes: 10_000)
    store.put([try Sample.response()], for: Self.key(1))
    store.put([try Sample.response(body: Sample.json(20_000))], for: Self.key(1))
    #expect(store.count == 0 && store.bytes == 0)
  }

  @Test("counts a compressed body, and compresses a response once")
  func compression() throws {
    let cache = ResponseCache(settings: CacheSettings())
    let response = try Sample.response(.ok, [.contentType: "application/json"], body: Sample.json(50_000))
    cache.store(response, for: Self.key(1))
    let before = cache.statistics.bytes
    let compressed = cache.compress(response, for: Self.key(1))
    let gzip = compressed.representation(.gzip).body
    #expect(gzip.count < 5000)
    #expect(cache.statistics.bytes == before + gzip.count)
    #expect(cache.compress(compressed, for: Self.key(1)) === compressed)
    let lookup = cache.lookup(Self.key(1), sending: [:], request: RequestDirectives(), now: Sample.time(0))
    guard case .hit(let selection) = lookup else { return #expect(Bool(false), "\(lookup)") }
    #expect(selection.response === compressed && !compressed.awaitsCompression)
  }

  @Test(
    "holds no spare capacity for content that grew in parts or was decoded",
    arguments: [false, true])
  func spareCapacity(cameGzipped: Bool) throws {
    var fields: FieldLines = [.contentType: "application/json"]
    var body = cameGzipped ? try #require(Gzip.deflate(Sample.json(50_000))) : Sample.json(50_000)
    if cameGzipped { fields[.contentEncoding] = "gzip" }
    body.reserveCapacity(200_000)
    let response = try Sample.response(.ok, fields, body: body).compressed()
    for coding in [ContentCoding.identity, .gzip] {
      let body = response.representation(coding).body
      #expect(body.capacity <= body.count + body.count / 16 + 64, "\(coding)")
    }
  }

  private static func long(_ count: Int) throws -> StoredResponse {
    try Sample.response(.ok, [.contentType: "application/json"], body: Sample.json(count))
  }

  private static func stored(_ number: Int, in cache: ResponseCache) -> StoredResponse? {
    let lookup = cache.lookup(key(number), sending: [:], request: RequestDirectives(), now: Sample.time(0))
    return if case .hit(let selection) = lookup { selection.response } else { nil }
  }

  @Test("compresses a long response in parts of 64 KiB, so that none takes long")
  func parts() throws {
    let cache = ResponseCache(settings: CacheSettings())
    let response = try Self.long(300_000)
    cache.store(response, for: Self.key(1))
    #expect(response.isLong && cache.compress(response, for: Self.key(1)) === response)
    let work = try #require(cache.beginCompression(of: response, for: Self.key(1)))
    #expect(cache.beginCompression(of: response, for: Self.key(1)) == nil)
    for _ in 0..<4 { #expect(work.advance() == nil) }
    let compressed = try #require(work.advance())
    #expect(!compressed.awaitsCompression && Self.stored(1, in: cache) === compressed)
    #expect(try Gzip.inflate(compressed.representation(.gzip).body, limit: 300_000) == Sample.json(300_000))
    #expect(cache.beginCompression(of: compressed, for: Self.key(1)) == nil)
  }

  @Test("compresses at most four long responses at a time, and others once one of them ends")
  func fewParts() throws {
    let cache = ResponseCache(settings: CacheSettings())
    let responses = try (0..<6).map { _ in try Self.long(70_000) }
    var works = responses.indices.map { cache.beginCompression(of: responses[$0], for: Self.key($0)) }
    #expect(works.map { $0 != nil } == [true, true, true, true, false, false])
    works[0] = nil
    #expect(cache.beginCompression(of: responses[5], for: Self.key(5)) != nil)
    // The response was removed meanwhile.
    #expect(works[1]?.advance() == nil && works[1]?.advance()?.awaitsCompression == false)
    #expect(Self.stored(1, in: cache) == nil && cache.statistics.bytes == 0)
  }

  @Test("keeps a newer response when the compression of an older response ends")
  func lateCompression() throws {
    let cache = ResponseCache(settings: CacheSettings())
    let fields: FieldLines = [.contentType: "application/json"]
    let old = try Sample.response(.ok, fields, body: Sample.json(5000))
    let new = try Sample.response(.ok, fields, body: Sample.json(6000))
    cache.store(new, for: Self.key(1))
    #expect(cache.compress(old, for: Self.key(1)).representation(.gzip).body.count < 1000)
    let lookup = cache.lookup(Self.key(1), sending: [:], request: RequestDirectives(), now: Sample.time(0))
    guard case .hit(let selection) = lookup else { return #expect(Bool(false), "\(lookup)") }
    #expect(selection.response === new)
  }

  @Test("allows concurrent use by many threads")
  func threads() throws {
    var settings = CacheSettings()
    settings.maxBytes = 300_000
    let cache = ResponseCache(settings: settings)
    let response = try Sample.response(.ok, [.contentType: "text/plain"], body: Sample.json(2000), settings: settings)
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      var random = SplitMix(seed: UInt64(thread))
      for _ in 0..<2000 {
        let key = Self.key(Int.random(in: 0..<100, using: &random))
        let lookup = cache.lookup(key, sending: [:], request: RequestDirectives(), now: Sample.time(0))
        if case .hit(let selection) = lookup {
          _ = cache.compress(selection.response, for: key)
        } else {
          cache.store(response, for: key)
        }
      }
    }
    #expect(cache.statistics.bytes <= settings.maxBytes && cache.statistics.entries > 0)
    cache.removeAll()
    #expect(cache.statistics.bytes == 0)
  }

  @Test("the list of targets that are not shared is bounded and forgets the oldest first")
  func bound() {
    var targets = UnsharedTargets()
    for index in 0..<1000 { targets.note(CacheKey("/\(index)"), isShareable: false, now: index) }
    #expect(targets.count == UnsharedTargets.maximumCount)
    #expect(!targets.contains(CacheKey("/0"), now: 1000))
    #expect(targets.contains(CacheKey("/999"), now: 1000))
    targets.note(CacheKey("/999"), isShareable: true, now: 1000)
    #expect(!targets.contains(CacheKey("/999"), now: 1000))
    #expect(!targets.contains(CacheKey("/998"), now: UnsharedTargets.lifetime + 998))
  }
}
