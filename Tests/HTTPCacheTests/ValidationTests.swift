import HTTP1
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("Revalidation")
struct ValidationTests {
  private let cache = ResponseCache(settings: CacheSettings())
  private let key = CacheKey("/v1/catalog/us/albums/1")
  private let stored: FieldLines = [
    .cacheControl: "max-age=60", .eTag: "\"1\"", .date: Sample.date(0), .age: "10", .contentType: "text/plain",
  ]

  private func keep(_ fields: FieldLines) throws -> StoredResponse {
    let response = try Sample.response(.ok, fields, body: Sample.json(2000))
    #expect(cache.store(response, for: key))
    return response
  }

  @Test("uses the validators of the origin")
  func validators() throws {
    let modified = Sample.date(-100)
    let cases: [(fields: FieldLines, validators: FieldLines)] = [
      ([.eTag: "\"1\""], [.ifNoneMatch: "\"1\""]),
      ([.eTag: "W/\"1\""], [.ifNoneMatch: "W/\"1\""]),
      ([.lastModified: modified], [.ifModifiedSince: modified]),
      ([.eTag: "\"1\"", .lastModified: modified], [.ifNoneMatch: "\"1\"", .ifModifiedSince: modified]),
      ([:], [:]),
      ([.eTag: "1"], [:]),
    ]
    for (fields, validators) in cases { #expect(try Sample.response(.ok, fields).validators == validators) }
  }

  @Test("by a 304 makes a response fresh again and keeps its content")
  func renewed() throws {
    let response = cache.compress(try keep(stored), for: key)
    let notModified = Sample.received(
      .notModified, [.eTag: "\"1\"", .date: Sample.date(100), .cacheControl: "max-age=30"], at: 100)
    let renewed = try #require(cache.freshen(response, for: key, by: notModified)).response
    let now = Selection(renewed, now: Sample.time(105))
    #expect(now.age == 5 && now.timeToLive == 25)
    #expect(renewed.status == .ok)
    #expect(renewed.representation(.identity).body == Sample.json(2000))
    #expect(renewed.representation(.gzip).body == response.representation(.gzip).body)
    #expect(renewed.representation(.identity).fields.value("Content-Type") == "text/plain")
    #expect(renewed.representation(.identity).fields.value("Cache-Control") == "private, max-age=30")
    let lookup = cache.lookup(key, sending: [:], request: RequestDirectives(), now: Sample.time(105))
    guard case .hit(let selection) = lookup else { return #expect(Bool(false), "\(lookup)") }
    #expect(selection.response === renewed)
  }

  @Test("keeps what a 304 does not mention, except Age and Date")
  func sparse() throws {
    let response = try keep(stored)
    let renewed = try #require(cache.freshen(response, for: key, by: Sample.received(.notModified, at: 100)))
      .response
    let now = Selection(renewed, now: Sample.time(100))
    #expect(now.age == 0 && now.timeToLive == 60)
    #expect(renewed.validators == [.ifNoneMatch: "\"1\""])
  }

  @Test("does not let a 304 change the description of the content")
  func description() throws {
    let notModified = Sample.received(
      .notModified, [.contentType: "image/png", .contentEncoding: "gzip", .contentLength: "0"],
      at: 100)
    let renewed = try #require(cache.freshen(try keep(stored), for: key, by: notModified)).response
    #expect(renewed.representation(.identity).fields.value("Content-Type") == "text/plain")
    #expect(renewed.representation(.identity).fields.value("Content-Encoding") == nil)
    #expect(renewed.isStorable)
  }

  static let mismatches: [(stored: FieldLines, notModified: FieldLines, isNewer: Bool)] = [
    ([.eTag: "\"1\""], [.eTag: "\"2\""], true),
    ([.eTag: "\"1\""], [.eTag: "W/\"1\""], false),
    ([.eTag: "\"1\""], [:], false),
    ([.lastModified: "a"], [.lastModified: "b"], true),
    ([.lastModified: "a"], [.lastModified: "a"], false),
    ([.lastModified: "a"], [.eTag: "\"1\""], true),
  ]

  @Test("ignores a 304 for another version, and removes the stored response", arguments: mismatches)
  func mismatch(stored: FieldLines, notModified: FieldLines, isNewer: Bool) throws {
    let received = Sample.received(.notModified, notModified, at: 9)
    let renewed = cache.freshen(try keep(stored), for: key, by: received)
    #expect((renewed == nil) == isNewer)
    #expect(cache.statistics.entries == (isNewer ? 0 : 1))
  }

  static let forbidding: [(FieldLines, downstream: String)] = [
    ([.cacheControl: "no-store"], "no-store"), ([.cacheControl: "private, max-age=50"], "private, max-age=50"),
    ([.cacheControl: "max-age=50", .setCookie: "a=b"], "private, max-age=50"),
    ([.cacheControl: "max-age=50", .vary: "*"], "private, max-age=50"),
  ]

  @Test("removes the response if the 304 is for one caller", arguments: forbidding)
  func forbidden(notModified: FieldLines, downstream: String) throws {
    var settings = CacheSettings()
    settings.isPublic = true
    let received = Sample.received(.notModified, notModified, at: 9)
    let renewed = try #require(cache.freshen(try keep(stored), for: key, by: received, settings: settings))
    #expect(!renewed.response.isStorable && !renewed.isStored && !renewed.response.isShareable)
    #expect(cache.statistics.entries == 0)
    let fields = renewed.response.representation(.identity).fields
    #expect(fields.value("Cache-Control") == downstream)
  }

  @Test("by a 200 replaces the response")
  func replaced() throws {
    _ = try keep(stored)
    let other = try Sample.response(.ok, [.eTag: "\"2\""], at: 100)
    cache.store(other, for: key)
    let lookup = cache.lookup(key, sending: [:], request: RequestDirectives(), now: Sample.time(100))
    guard case .hit(let selection) = lookup else { return #expect(Bool(false), "\(lookup)") }
    #expect(selection.response === other)
  }
}
