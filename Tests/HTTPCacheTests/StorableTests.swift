import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("Whether a response is stored")
struct StorableTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let label: String
    let status: HTTPResponse.Status
    let fields: FieldLines
    let isStored: Bool
    var testDescription: String { label }

    private init(_ label: String, _ isStored: Bool, _ fields: FieldLines, _ status: HTTPResponse.Status) {
      (self.label, self.status, self.fields, self.isStored) = (label, status, fields, isStored)
    }

    static func store(_ label: String, _ fields: FieldLines = [:], status: HTTPResponse.Status = .ok) -> Case {
      Case(label, true, fields, status)
    }

    static func refuse(_ label: String, _ fields: FieldLines, status: HTTPResponse.Status = .ok) -> Case {
      Case(label, false, fields, status)
    }
  }

  static let cases: [Case] = [
    .store("200 that says nothing"),
    .store("301", status: .movedPermanently),
    .store("308", status: .permanentRedirect),
    .store("404", status: .notFound),
    .store("410", status: .gone),
    .refuse("206", [.cacheControl: "max-age=60"], status: .partialContent),
    .refuse("302", [.cacheControl: "max-age=60"], status: .found),
    .refuse("304", [.cacheControl: "max-age=60"], status: .notModified),
    .refuse("401", [.cacheControl: "max-age=60"], status: .unauthorized),
    .refuse("403", [.cacheControl: "max-age=60"], status: .forbidden),
    .refuse("429", [.cacheControl: "max-age=60"], status: .tooManyRequests),
    .refuse("500", [.cacheControl: "max-age=60"], status: .internalServerError),
    .refuse("503", [.cacheControl: "max-age=60"], status: .serviceUnavailable),
    .refuse("a 200 with Content-Range", [.contentRange: "bytes 0-1/2"]),
    .refuse("no-store", [.cacheControl: "no-store, max-age=60"]),
    .store("no-store that must be understood, and is", [.cacheControl: "must-understand, no-store, max-age=60"]),
    .refuse("private", [.cacheControl: "private, max-age=60"]),
    .refuse("private of some fields", [.cacheControl: "private=\"X-A\", max-age=60"]),
    .refuse("private and public", [.cacheControl: "public, private"]),
    .store("public", [.cacheControl: "public"]),
    .refuse("Set-Cookie", [.cacheControl: "public, max-age=60", .setCookie: "a=b"]),
    .refuse("Vary: *", [.vary: "*"]),
    .refuse("Vary with * in it", [.vary: "Accept, *"]),
    .refuse("Vary that is no list of names", [.vary: "Accept Language"]),
    .refuse("Vary of too many", [.vary: (0..<40).map { "X-\($0)" }.joined(separator: ",")]),
    .store("Vary", [.vary: "Accept-Encoding, Origin, Authorization, Accept-Language"]),
    .refuse("a coding that we do not know", [.contentEncoding: "br"]),
    .refuse("two codings", [.contentEncoding: "gzip, gzip"]),
    .store("identity, said so", [.contentEncoding: "identity"]),
    .refuse("no-cache without validator", [.cacheControl: "no-cache"]),
    .store("no-cache with ETag", [.cacheControl: "no-cache", .eTag: "\"1\""]),
    .store("no-cache with Last-Modified", [.cacheControl: "no-cache", .lastModified: Sample.date(-9)]),
    .store("stale at once, except when the upstream fails", [.cacheControl: "max-age=0"]),
    .refuse("stale at once and never to be used so", [.cacheControl: "max-age=0, must-revalidate"]),
    .refuse("s-maxage of 0", [.cacheControl: "s-maxage=0"]),
  ]

  @Test("follows the rules for a shared cache", arguments: cases)
  func storable(_ test: Case) throws {
    let response = try Sample.response(test.status, test.fields)
    #expect(response.isStorable == test.isStored)
    let cache = ResponseCache(settings: CacheSettings())
    #expect(cache.store(response, for: CacheKey("/")) == test.isStored)
    #expect(cache.statistics.entries == (test.isStored ? 1 : 0))
  }

  @Test("refuses a response larger than the limit for one response")
  func size() throws {
    var settings = CacheSettings()
    settings.largestContent = 1000
    #expect(try Sample.response(body: Sample.json(1000), settings: settings).isStorable)
    #expect(try !Sample.response(body: Sample.json(1001), settings: settings).isStorable)
    settings.maxBytes = 4000
    #expect(try !Sample.response(body: Sample.json(501), settings: settings).isStorable)
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
