import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("Responses that vary")
struct VariantTests {
  private let cache = ResponseCache(settings: CacheSettings())
  private let key = CacheKey("/v1/catalog/us/genres")

  private func find(_ sent: FieldLines) -> String {
    switch cache.lookup(key, sending: sent, request: RequestDirectives(), now: Sample.time(0)) {
    case .hit(let selection): String(decoding: selection.response.representation(.identity).body, as: UTF8.self)
    case .miss(let reason): reason.rawValue
    default: "?"
    }
  }

  private func store(_ body: String, vary: String?, sent: FieldLines) throws {
    let fields: FieldLines = vary.map { [.vary: $0] } ?? [:]
    #expect(cache.store(try Sample.response(.ok, fields, body: Array(body.utf8), sent: sent), for: key))
  }

  @Test("are selected by the fields that were sent upstream")
  func selected() throws {
    try store("de", vary: "accept-language", sent: [.acceptLanguage: "de"])
    try store("fr", vary: "Accept-Language", sent: [.acceptLanguage: "fr"])
    try store("none", vary: "Accept-Language", sent: [:])
    #expect(find([.acceptLanguage: "de"]) == "de")
    #expect(find([.acceptLanguage: "fr", .accept: "x"]) == "fr")
    #expect(find([:]) == "none")
    #expect(find([.acceptLanguage: "it"]) == "vary-miss")
    #expect(cache.statistics.entries == 1)
  }

  @Test("do not vary by fields never sent upstream, by the content coding or by the credential")
  func constant() throws {
    try store("all", vary: "Accept-Encoding, Authorization, Origin, Cookie", sent: [.acceptEncoding: "gzip"])
    #expect(find([.acceptEncoding: "identity", .authorization: "Bearer other"]) == "all")
  }

  @Test("replace the response that the same request would have got")
  func replaced() throws {
    try store("old", vary: "Accept-Language", sent: [.acceptLanguage: "de"])
    let bytes = cache.statistics.bytes
    for _ in 0..<10 { try store("new", vary: "Accept-Language", sent: [.acceptLanguage: "de"]) }
    #expect(find([.acceptLanguage: "de"]) == "new")
    // The allocator decides how much room an array has, so equal responses may count differently.
    #expect(cache.statistics.bytes < 2 * bytes)
  }

  @Test("are replaced when the origin varies by another field")
  func otherVary() throws {
    try store("all", vary: nil, sent: [.acceptLanguage: "de"])
    try store("fr", vary: "Accept-Language", sent: [.acceptLanguage: "fr"])
    #expect(find([.acceptLanguage: "de"]) == "vary-miss")
    try store("all again", vary: nil, sent: [:])
    #expect(find([.acceptLanguage: "fr"]) == "all again")
  }

  @Test("are limited in number for one key")
  func bounded() throws {
    for index in 0..<100 { try store("\(index)", vary: "Accept-Language", sent: [.acceptLanguage: "l\(index)"]) }
    #expect((0..<100).filter { find([.acceptLanguage: "l\($0)"]) == "\($0)" } == Array(92..<100))
  }

  @Test("are looked up by bytes, not by Unicode equivalence")
  func keys() {
    #expect("\u{e9}" == "e\u{301}")
    #expect(CacheKey("/\u{e9}") != CacheKey("/e\u{301}"))
    #expect(CacheKey("/a") == CacheKey(Array("/a".utf8)))
  }
}
