import Testing

@testable import HTTPCache

@Suite("Accept-Encoding")
struct ContentCodingTests {
  static let fields: [(value: String, coding: ContentCoding)] = [
    ("gzip", .gzip),
    ("GZip", .gzip),
    ("x-gzip", .gzip),
    ("gzip, deflate, br, zstd", .gzip),
    ("br;q=1.0, gzip;q=0.8, *;q=0.1", .gzip),
    ("deflate ; q=0.5 ,\tgzip\t;\tq=0.001", .gzip),
    ("gzip;Q=1.000", .gzip),
    ("*", .gzip),
    ("*;q=0.3", .gzip),
    ("identity;q=0.5, gzip;q=0.5", .gzip),
    ("identity;q=0, gzip;q=0.1", .gzip),
    (",,gzip,,", .gzip),
    ("", .identity),
    ("identity", .identity),
    ("br", .identity),
    ("gzip;q=0", .identity),
    ("gzip;q=0.000, *", .identity),
    ("*;q=0", .identity),
    ("identity, gzip;q=0.9", .identity),
    ("identity;q=0.6, *;q=0.5", .identity),
    ("gzipped", .identity),
    ("gzip;q=2", .identity),
    ("gzip;q=1.001", .identity),
    ("gzip;q=0.5555", .identity),
    ("gzip;q=", .identity),
    ("gzip;q=.5", .identity),
    ("gzip;level=9", .identity),
    ("gzip;q=0.5;q=1", .identity),
    ("gzip deflate", .identity),
    ("\"gzip\"", .identity),
    ("identity;q=0", .identity),
    (String(repeating: "br, ", count: 40) + "gzip", .identity),
    (String(repeating: "x", count: 2000) + ", gzip", .identity),
  ]

  @Test("selects the content coding", arguments: fields)
  func preferred(value: String, coding: ContentCoding) {
    #expect(ContentCoding.preferred(acceptEncoding: Array(value.utf8).span) == coding)
  }
}
