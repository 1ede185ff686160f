import Testing

@testable import HTTPCache

@Suite("Cache-Control of a request")
struct RequestDirectivesTests {
  @Test("has all directives of all its lines")
  func whole() {
    let request = Sample.request(
      "max-age=10, min-fresh=20, No-Store", #"max-stale="30",only-if-cached,stale-if-error=40"#)
    #expect(request.maxAge == 10)
    #expect(request.minFresh == 20)
    #expect(request.maxStale == 30)
    #expect(request.staleIfError == 40)
    #expect(request.noStore && request.onlyIfCached && !request.noCache)
  }

  @Test("accepts any staleness with a bare max-stale, and none with a malformed max-stale")
  func maxStale() {
    #expect(Sample.request("max-stale").maxStale == 1 << 31)
    #expect(Sample.request("max-stale=x").maxStale == nil)
  }

  @Test(
    "ignores malformed directives",
    arguments: [
      "", "max-age", "max-age=", "max-age=x", "max-age=-1", "max-age=1 2", "nocache", #""no-cache""#, "=", "\"",
    ])
  func unreadable(value: String) {
    #expect(Sample.request(value) == Sample.request(""))
  }

  static let pragmas: [(label: String, pragma: String, control: String?, noCache: Bool)] = [
    ("alone", "no-cache", nil, true),
    ("in a list", "x=y, No-Cache", nil, true),
    ("overruled", "no-cache", "max-age=60", false),
    ("overruled by nothing at all", "no-cache", "", false),
    ("confirmed", "no-cache", "no-cache", true),
    ("another", "cache", nil, false),
  ]

  @Test("Pragma counts only if the request has no Cache-Control", arguments: pragmas)
  func pragma(label: String, pragma: String, control: String?, noCache: Bool) {
    for pragmaFirst in [true, false] {
      var request = RequestDirectives()
      if pragmaFirst { request.add(pragma: Array(pragma.utf8).span) }
      if let control { request.add(cacheControl: Array(control.utf8).span) }
      if !pragmaFirst { request.add(pragma: Array(pragma.utf8).span) }
      #expect(request.noCache == noCache, "\(label)")
    }
  }
}
