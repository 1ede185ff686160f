import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("A response to callers")
struct RepresentationTests {
  private func value(_ name: String, _ fields: FieldLines, isPublic: Bool = false) throws -> String? {
    var settings = CacheSettings()
    settings.isPublic = isPublic
    return try Sample.response(.ok, fields, settings: settings).representation(.identity).fields.value(name)
  }

  static let controls: [(received: String?, sent: String, toAnybody: String)] = [
    (nil, "private, max-age=300", "public, max-age=300"),
    ("max-age=60", "private, max-age=60", "public, max-age=60"),
    ("public, max-age=60", "private, max-age=60", "public, max-age=60"),
    ("max-age=60, s-maxage=90", "private, max-age=60", "public, max-age=60, s-maxage=90"),
    ("s-maxage=90", "private, max-age=300", "public, max-age=300, s-maxage=90"),
    ("no-cache", "private, no-cache, max-age=300", "public, no-cache, max-age=300"),
    ("max-age=60, must-revalidate", "private, max-age=60, must-revalidate", "public, max-age=60, must-revalidate"),
    ("max-age=60, proxy-revalidate", "private, max-age=60", "public, max-age=60, proxy-revalidate"),
    ("max-age=60, no-transform", "private, max-age=60, no-transform", "public, max-age=60, no-transform"),
    (
      "max-age=60, stale-while-revalidate=5, stale-if-error=9",
      "private, max-age=60, stale-while-revalidate=5, stale-if-error=9",
      "public, max-age=60, stale-while-revalidate=5, stale-if-error=9"
    ),
    ("no-store", "no-store", "no-store"),
    ("private, max-age=60", "private, max-age=60", "private, max-age=60"),
    ("private", "no-store", "no-store"),
  ]

  @Test("is private unless the cache is public", arguments: controls)
  func cacheControl(received: String?, sent: String, toAnybody: String) throws {
    var fields: FieldLines = [.eTag: "\"1\""]
    fields[.cacheControl] = received
    #expect(try value("Cache-Control", fields) == sent)
    #expect(try value("Cache-Control", fields, isPublic: true) == toAnybody)
  }

  @Test("is never public if it is for one caller", arguments: [[.setCookie: "a=b"], [.vary: "*"]] as [FieldLines])
  func forOne(field: FieldLines) throws {
    var fields: FieldLines = [.eTag: "\"1\"", .cacheControl: "public, max-age=60"]
    fields.append(contentsOf: field)
    #expect(try value("Cache-Control", fields, isPublic: true) == "private, max-age=60")
  }

  @Test("to an upstream error is no-store and has no entity tag")
  func error() throws {
    let fields = try Sample.response(.internalServerError).representation(.identity).fields
    #expect(fields.value("Cache-Control") == "no-store")
    #expect(fields.value("ETag") == nil)
  }

  @Test("varies by Origin, by Accept-Encoding if compressible, and by fields of the upstream's Vary")
  func vary() throws {
    #expect(try value("Vary", [:]) == "Origin")
    #expect(try value("Vary", [:], isPublic: true) == "Origin")
    #expect(try value("Vary", [.vary: "*"]) == "*")
    #expect(try value("Vary", [.vary: "authorization, accept-language, origin"]) == "Origin, accept-language")
    let text = try Sample.response(.ok, [.contentType: "application/json"], body: Sample.json(2000))
    #expect(text.representation(.identity).fields.value("Vary") == "Accept-Encoding, Origin")
  }

  @Test("has the fields that the header policy allows, each once, and none that only the cache needs")
  func fields() throws {
    let fields: FieldLines = [
      .eTag: "\"1\"", .date: Sample.date(0), .age: "3", .cacheControl: "max-age=9", .contentType: "application/json",
      .expires: Sample.date(9), .setCookie: "a=b", .contentRange: "bytes 0-1/2",
    ]
    let response = try Sample.response(.ok, fields)
    #expect(
      response.representation(.identity).fields.lines == [
        "Content-Type: application/json", "Cache-Control: private, max-age=9", "X-Content-Type-Options: nosniff",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'", "Vary: Origin", "ETag: \"1\"",
      ])
  }

  @Test("as a 304 has only the fields of RFC 9110 §15.4.5 and nosniff")
  func notModified() throws {
    let fields: FieldLines = [.eTag: "\"1\"", .contentType: "a/b", .contentLocation: "/x", .lastModified: "y"]
    #expect(
      try Sample.response(.ok, fields).representation(.identity).notModified.lines == [
        "Content-Location: /x", "Cache-Control: private, max-age=300", "X-Content-Type-Options: nosniff",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'", "Vary: Origin", "ETag: \"1\"",
      ])
  }

  @Test("gets an entity tag from its content if the origin gives none")
  func ownTag() throws {
    let tag = try #require(try value("ETag", [:]))
    #expect(tag.hasPrefix("\"") && tag.hasSuffix("-2\"") && tag.utf8.count == 20)
    #expect(try value("ETag", [.eTag: "not quoted"]) == tag)
    let other = try Sample.response(body: Array("[]".utf8)).representation(.identity).fields.value("ETag")
    #expect(other != tag)
    #expect(try Sample.response().validators.isEmpty)
  }

  static let tags: [(label: String, theirs: String?, cameGzipped: Bool, identity: String, gzip: String)] = [
    ("theirs, for identity", "\"a\"", false, "\"a\"", "W/\"a\""),
    ("theirs, for gzip", "\"a\"", true, "W/\"a\"", "\"a\""),
    ("theirs, weak", "W/\"a\"", false, "W/\"a\"", "W/\"a\""),
    ("theirs, weak, for gzip", "W/\"a\"", true, "W/\"a\"", "W/\"a\""),
    ("ours", nil, false, "\"", "W/\""),
    ("ours, of what came gzipped", nil, true, "\"", "W/\""),
  ]

  @Test("has a strong entity tag in one content coding only", arguments: tags)
  func strongOnce(label: String, theirs: String?, cameGzipped: Bool, identity: String, gzip: String) throws {
    let json = Sample.json(2000)
    var fields: FieldLines = [.contentType: "application/json"]
    fields[.eTag] = theirs
    if cameGzipped { fields[.contentEncoding] = "gzip" }
    let body = cameGzipped ? try #require(Gzip.deflate(json)) : json
    let response = try Sample.response(.ok, fields, body: body).compressed()
    for (coding, prefix) in [(ContentCoding.identity, identity), (.gzip, gzip)] {
      let representation = response.representation(coding)
      let tag = try #require(representation.fields.value("ETag"))
      #expect(theirs == nil ? tag.hasPrefix(prefix) : tag == prefix, "\(label)")
      #expect(representation.notModified.value("ETag") == tag)
      #expect(representation.fields.value("Content-Encoding") == (coding == .gzip ? "gzip" : nil))
      var preconditions = Preconditions()
      preconditions.add(ifNoneMatch: Array(tag.utf8).span)
      #expect(response.isNotModified(preconditions, now: Sample.time(0)))
    }
    #expect(response.representation(.identity).body == json)
    #expect(try Gzip.inflate(response.representation(.gzip).body, limit: 2000) == json)
  }

  @Test("with an unknown content coding is sent unchanged")
  func unknownCoding() throws {
    let response = try Sample.response(
      .ok, [.contentEncoding: "br", .contentType: "text/plain"], body: Sample.json(2000))
    #expect(response.representation(.gzip).fields.value("Content-Encoding") == "br")
    #expect(response.representation(.gzip).body == Sample.json(2000))
  }

  @Test("that is labelled gzip but is not gzip is refused")
  func falseCoding() {
    #expect(throws: ContentCodingError.malformed) { try Sample.response(.ok, [.contentEncoding: "gzip"]) }
    #expect(throws: Never.self) { try Sample.response(.noContent, [.contentEncoding: "gzip"], body: []) }
  }

  static let contents: [(type: String?, control: String, count: Int, is: Bool)] = [
    ("application/json", "max-age=9", 1024, true),
    ("application/json;charset=utf-8", "max-age=9", 1024, true),
    ("Application/JSON ; charset=utf-8", "max-age=9", 1024, true),
    ("application/problem+json", "max-age=9", 1024, true),
    ("text/html", "max-age=9", 1024, true),
    ("application/json", "max-age=9", 1023, false),
    ("application/json", "max-age=9, no-transform", 1024, false),
    ("application/json", "no-store", 1024, false),
    ("image/jpeg", "max-age=9", 1024, false),
    (nil, "max-age=9", 1024, false),
  ]

  @Test("is compressed only if its type, size and Cache-Control allow", arguments: contents)
  func awaitsCompression(type: String?, control: String, count: Int, is expected: Bool) throws {
    var fields: FieldLines = [.cacheControl: control]
    fields[.contentType] = type
    #expect(try Sample.response(.ok, fields, body: Sample.json(count)).awaitsCompression == expected)
  }
}
