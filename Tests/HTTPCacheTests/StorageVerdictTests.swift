import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("The verdict on storing a response")
struct StorageVerdictTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let label: String
    let status: HTTPResponse.Status
    let fields: FieldLines
    let verdict: StorageVerdict
    var testDescription: String { label }

    init(
      _ label: String, _ verdict: StorageVerdict, _ fields: FieldLines = [:], status: HTTPResponse.Status = .ok
    ) {
      (self.label, self.status, self.fields, self.verdict) = (label, status, fields, verdict)
    }
  }

  static let cases = [
    Case("200 that says nothing", .store),
    Case("301", .store, status: .movedPermanently),
    Case("308", .store, status: .permanentRedirect),
    Case("404", .store, status: .notFound),
    Case("410", .store, status: .gone),
    Case("206", .refuse(.status), [.cacheControl: "max-age=60"], status: .partialContent),
    Case("302", .refuse(.status), [.cacheControl: "max-age=60"], status: .found),
    Case("304", .refuse(.status), [.cacheControl: "max-age=60"], status: .notModified),
    Case("401", .refuse(.status), [.cacheControl: "max-age=60"], status: .unauthorized),
    Case("403", .refuse(.status), [.cacheControl: "max-age=60"], status: .forbidden),
    Case("429", .refuse(.status), [.cacheControl: "max-age=60"], status: .tooManyRequests),
    Case("500", .refuse(.status), [.cacheControl: "max-age=60"], status: .internalServerError),
    Case("503", .refuse(.status), [.cacheControl: "max-age=60"], status: .serviceUnavailable),
    Case("a 200 with Content-Range", .refuse(.partial), [.contentRange: "bytes 0-1/2"]),
    Case("no-store", .refuse(.noStore), [.cacheControl: "no-store, max-age=60"]),
    Case("no-store that must be understood, and is", .store, [.cacheControl: "must-understand, no-store, max-age=60"]),
    Case("private", .refuse(.isPrivate), [.cacheControl: "private, max-age=60"]),
    Case("private of some fields", .refuse(.isPrivate), [.cacheControl: "private=\"X-A\", max-age=60"]),
    Case("private and public", .refuse(.isPrivate), [.cacheControl: "public, private"]),
    Case("public", .store, [.cacheControl: "public"]),
    Case("Set-Cookie", .refuse(.setCookie), [.cacheControl: "public, max-age=60", .setCookie: "a=b"]),
    Case("Vary: *", .refuse(.vary), [.vary: "*"]),
    Case("Vary with * in it", .refuse(.vary), [.vary: "Accept, *"]),
    Case("Vary that is no list of names", .refuse(.vary), [.vary: "Accept Language"]),
    Case("Vary of too many", .refuse(.vary), [.vary: (0..<40).map { "X-\($0)" }.joined(separator: ",")]),
    Case("Vary", .store, [.vary: "Accept-Encoding, Origin, Authorization, Accept-Language"]),
    Case("a coding that we do not know", .refuse(.coding), [.contentEncoding: "br"]),
    Case("two codings", .refuse(.coding), [.contentEncoding: "gzip, gzip"]),
    Case("identity, said so", .store, [.contentEncoding: "identity"]),
    Case("no-cache without validator", .refuse(.useless), [.cacheControl: "no-cache"]),
    Case("no-cache with ETag", .store, [.cacheControl: "no-cache", .eTag: "\"1\""]),
    Case("no-cache with Last-Modified", .store, [.cacheControl: "no-cache", .lastModified: Sample.date(-9)]),
    Case("stale at once, but for when the upstream fails", .store, [.cacheControl: "max-age=0"]),
    Case("stale at once and never to be used so", .refuse(.useless), [.cacheControl: "max-age=0, must-revalidate"]),
    Case("s-maxage of 0", .refuse(.useless), [.cacheControl: "s-maxage=0"]),
  ]

  @Test("follows the rules for a shared cache", arguments: cases)
  func verdict(_ test: Case) throws {
    let response = try Sample.response(test.status, test.fields)
    #expect(response.verdict == test.verdict)
    let cache = ResponseCache(settings: CacheSettings())
    #expect(cache.store(response, for: CacheKey("/")) == (test.verdict == .store))
    #expect(cache.statistics.entries == (test.verdict == .store ? 1 : 0))
  }

  @Test("refuses a response larger than the limit for one response")
  func size() throws {
    var settings = CacheSettings()
    settings.largestContent = 1000
    #expect(try Sample.response(body: Sample.json(1000), settings: settings).verdict == .store)
    #expect(try Sample.response(body: Sample.json(1001), settings: settings).verdict == .refuse(.tooLarge))
    settings.maxBytes = 4000
    #expect(try Sample.response(body: Sample.json(501), settings: settings).verdict == .refuse(.tooLarge))
  }

  @Test("refuses every response if the cache has no bytes")
  func off() throws {
    var settings = CacheSettings()
    settings.maxBytes = 0
    let cache = ResponseCache(settings: settings)
    #expect(!cache.store(try Sample.response(.ok, body: [], settings: settings), for: CacheKey("/")))
    #expect(cache.statistics == CacheStatistics(entries: 0, bytes: 0, hits: 0, evictions: 0))
  }

  @Test("a response that must not be stored removes the stored one, unless its status says nothing about the target")
  func supersedes() throws {
    let cache = ResponseCache(settings: CacheSettings())
    let key = CacheKey("/")
    cache.store(try Sample.response(), for: key)
    cache.store(try Sample.response(.serviceUnavailable), for: key)
    cache.store(try Sample.response(.unauthorized), for: key)
    #expect(cache.statistics.entries == 1)
    cache.store(try Sample.response(.ok, [.cacheControl: "no-store"]), for: key)
    #expect(cache.statistics.entries == 0)
  }
}
