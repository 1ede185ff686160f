import Bytes
import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy

@Suite struct CatalogTargetTests {
  @Test("a target that two parsers could read differently is refused", arguments: RefusedTarget.all)
  func refused(_ target: RefusedTarget) {
    #expect(throws: target.reason) { try CatalogTarget(target.bytes) }
  }

  @Test("every refusal has its own sentence and the status and code of its kind")
  func reasons() {
    let reasons = TargetRefusal.allCases
    #expect(Set(reasons.map(\.rawValue)).count == reasons.count)
    for reason in reasons {
      #expect(reason.rawValue.hasSuffix(".") || reason.rawValue.hasSuffix("case."), "\(reason)")
      let notFound: [TargetRefusal] = [.unknownPath, .storefront, .meDisabled]
      guard reason != .userTokensDisabled else { continue }
      #expect(
        reason.response == ErrorResponse(notFound.contains(reason) ? .notFound : .malformedRequest, reason.rawValue))
    }
    let provoked = Set(RefusedTarget.all.map(\.reason)).union([.meDisabled, .userTokensDisabled])
    #expect(provoked == Set(reasons))
  }

  @Test("a target at the length limits is accepted")
  func limits() throws {
    #expect(throws: Never.self) { try CatalogTarget("/v1/catalog/us/" + String(repeating: "a", count: 256)) }
    #expect(throws: Never.self) { try CatalogTarget("/v1/catalog/us" + String(repeating: "/a", count: 13)) }
    #expect(throws: Never.self) { try CatalogTarget("/v1/catalog/us?" + String(repeating: "&", count: 127)) }
  }

  @Test(
    "a path has the template of its resource",
    arguments: [
      ("/v1/catalog/us", "/v1/catalog/{storefront}"),
      ("/v1/catalog/us/albums", "/v1/catalog/{storefront}/{type}"),
      ("/v1/catalog/us/search", "/v1/catalog/{storefront}/search"),
      ("/v1/catalog/us/search/hints", "/v1/catalog/{storefront}/search/hints"),
      ("/v1/catalog/us/search/suggestions", "/v1/catalog/{storefront}/search/suggestions"),
      ("/v1/catalog/us/search/other", "/v1/catalog/{storefront}/{type}/{id}"),
      ("/v1/catalog/us/charts", "/v1/catalog/{storefront}/charts"),
      ("/v1/catalog/us/albums/1200868601", "/v1/catalog/{storefront}/{type}/{id}"),
      ("/v1/catalog/us/playlists/pl.u-76oNlvBCvQ8vqLe", "/v1/catalog/{storefront}/{type}/{id}"),
      ("/v1/catalog/us/albums/1200868601/tracks", "/v1/catalog/{storefront}/{type}/{id}/{relationship}"),
      ("/v1/catalog/us/artists/82842423/view/top-songs", "/v1/catalog/{storefront}/{type}/{id}/view/{view}"),
      ("/v1/catalog/us/a/b/c/d/e/f", "/v1/catalog/{storefront}/*"),
      ("/v1/storefronts", "/v1/storefronts"),
      ("/v1/storefronts/jp", "/v1/storefronts/{storefront}"),
      ("/v1/storefronts/jp/x", "/v1/storefronts/*"),
      ("/v1/language/us/tag", "/v1/language/{storefront}/tag"),
      ("/v1/test", "/v1/test"),
      ("/v1/me/storefront", "/v1/me/storefront"),
      ("/v1/me/library/songs/i.D7aqR9Xx8Jb0", "/v1/me/library/*"),
      ("/v1/me/ratings/songs/1", "/v1/me/ratings/*"),
      ("/v1/me/recommendations", "/v1/me/recommendations/*"),
      ("/v1/me/recent/played/tracks", "/v1/me/recent/*"),
      ("/v1/me/history/heavy-rotation", "/v1/me/history/*"),
      ("/v1/me/anything", "/v1/me/*"),
    ])
  func template(path: String, template: String) throws {
    let target = try CatalogTarget(path)
    #expect(target.route.description == template)
    #expect(target.target.text == path)
  }

  @Test("a path has the storefront that it names")
  func storefront() throws {
    for (text, storefront) in [
      ("/v1/catalog/us/albums/1", "us"), ("/v1/%63atalog/GB", "gb"), ("/v1/language/jp/tag", "jp"),
      ("/v1/storefronts/de", nil),
    ] {
      let path = try CatalogPath(Array(text.utf8).span, allowsMe: false)
      #expect(path.storefront == storefront)
    }
  }

  @Test(
    "the server decodes unreserved escapes in the path it sends and leaves the query unchanged",
    arguments: [
      ("/v1/c%61talog/%75s/albums/1%32", "/v1/catalog/us/albums/12"),
      ("/v1/%6D%65/library", "/v1/me/library"),
      ("/v1/catalog/us/playlists/pl%2Eu%2D7%5Fx%7e", "/v1/catalog/us/playlists/pl.u-7_x~"),
      ("/v1/catalog/us?ids[songs]=1,2&ids%5Balbums%5D=3", "/v1/catalog/us?ids[songs]=1,2&ids%5Balbums%5D=3"),
      ("/v1/catalog/us/search?term=a+b%20c%2Bd&l=de-DE", "/v1/catalog/us/search?term=a+b%20c%2Bd&l=de-DE"),
      ("/v1/catalog/us/search?term=%c3%a4/?:@!$'()*;", "/v1/catalog/us/search?term=%c3%a4/?:@!$'()*;"),
      ("/v1/catalog/us/search?term=100%25", "/v1/catalog/us/search?term=100%25"),
      ("/v1/catalog/us?", "/v1/catalog/us?"),
    ])
  func canonical(received: String, sent: String) throws {
    #expect(try CatalogTarget(received).target.text == sent)
    #expect(try CatalogTarget(sent).target.text == sent)
  }

  @Test(
    "a slash at the end, a storefront in capitals, and characters that only need encoding pass on",
    arguments: [
      ("/v1/me/library/?ids[songs]=1", "/v1/me/library?ids[songs]=1"), ("/v1/catalog/us/", "/v1/catalog/us"),
      ("/v1/catalog/us/search/?term=a/", "/v1/catalog/us/search?term=a/"), ("/v1/test/", "/v1/test"),
      ("/v1/catalog/GB/albums/1", "/v1/catalog/gb/albums/1"), ("/v1/catalog/Gb/charts/", "/v1/catalog/gb/charts"),
      ("/v1/catalog/%47B/albums", "/v1/catalog/gb/albums"), ("/v1/storefronts/DE", "/v1/storefronts/de"),
      ("/v1/language/JP/tag", "/v1/language/jp/tag"), ("/v1/catalog/us/albums/AB", "/v1/catalog/us/albums/AB"),
      ("/v1/catalog/us/search?term=\"a\"", "/v1/catalog/us/search?term=%22a%22"),
      ("/v1/catalog/us/search?term=<3&l=x", "/v1/catalog/us/search?term=%3C3&l=x"),
      ("/v1/catalog/us/search?t>=%22{a}", "/v1/catalog/us/search?t%3E=%22{a}"),
    ])
  func passedOn(received: String, sent: String) throws {
    let (target, again) = (try CatalogTarget(received), try CatalogTarget(sent))
    #expect(target.target.text == sent)
    #expect(target.bytes == again.bytes && target.cacheKey == again.cacheKey)
  }

  @Test(
    "a refusal shows the part that it is about, and nothing that a reader cannot see",
    arguments: [
      ("/v1/catalog/us?term=Beyoncé", "It is “é”, at byte 12: write %C3%A9."),
      ("/v1/catalog/us/albums/é", "It is “é”, at byte 23: write %C3%A9."),
      ("/v1/catalog/us/albums/%C3%A9", "It is %C3, at byte 23."),
      ("/v1/catalog/us?term=a\u{202e}b", "It is U+202E, at byte 7: write %E2%80%AE."),
      ("/v1/catalog/us?term=%zz", "It is %zz, at byte 6."), ("/v1/catalog/us?term=100%", "It is %, at byte 9."),
      ("/v1/catalog/us?a=%41&term=a%0ab", "It is %0a, at byte 13."), ("/v1/catalog/us?a=b c", "It is %20, at byte 4."),
      ("/v1/catalog/us?term=a\u{a0}b", "It is U+A0, at byte 7: write %C2%A0."),
      ("/v1//catalog/us", "It is //, at byte 4."), ("//v1/catalog/us", "It is //, at byte 1."),
      ("/v1/catalog/us/../me", "It is .., at byte 16."), ("/v1/catalog/us/.%2E", "It is .%2E, at byte 16."),
      ("/v1/catalog/us;x", "It is ;, at byte 15."), ("/v1/catalog/us%2Fa", "It is %2F, at byte 15."),
      ("/v1/catalog/us/a%252e", "It is %25, at byte 17."), ("/v1/catalog/us/a\\b", "It is \\, at byte 17."),
      ("/v1/catalog/us/<a>", "It is <, at byte 16."), ("/v1/catalog/us?a=b#c", "It is #, at byte 4."),
    ])
  func part(target: String, sentence: String) throws {
    let bytes = Array(target.utf8)
    let mark = bytes.firstIndex(of: UInt8(ascii: "?")) ?? bytes.count
    let (text, query) = (bytes[..<mark], bytes[mark...].dropFirst())
    let path = try? CatalogPath(text.span, allowsMe: true)
    let defect = #expect(throws: TargetDefect.self) {
      try CatalogTarget(try path ?? CatalogPath(text.span, allowsMe: true), query: query.span, hasUserToken: false)
    }
    let response = try #require(defect).response(quoting: path == nil ? text : query)
    #expect(response.detail.hasSuffix(" \(sentence)"), "\(response.detail)")
    #expect(response.detail.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F })
  }

  @Test("every spelling of a path under /v1/me is refused unless /v1/me is forwarded")
  func disabled() {
    for path in ["/v1/me/library", "/v1/%6de/library", "/v1/m%65/storefront?x=1"] {
      #expect(throws: TargetRefusal.meDisabled) { try CatalogTarget(path, allowsMe: false) }
    }
  }

  @Test("only paths below /v1/me allow methods that change something")
  func methods() throws {
    let (catalog, me) = (try CatalogTarget("/v1/catalog/us/albums/1"), try CatalogTarget("/v1/me/library"))
    for method in [HTTPRequest.Method.get, .head] {
      #expect(catalog.kind.allows(method) && me.kind.allows(method))
    }
    for method in [HTTPRequest.Method.post, .put, .patch, .delete] {
      #expect(!catalog.kind.allows(method) && me.kind.allows(method))
    }
    for method in [HTTPRequest.Method.trace, .connect, .options] {
      #expect(!catalog.kind.allows(method) && !me.kind.allows(method))
    }
    #expect(catalog.kind.allow.description == "GET, HEAD, OPTIONS")
    #expect(me.kind.allow.description == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
  }

  @Test("only responses about the catalog and storefronts without user data may be stored")
  func storable() throws {
    #expect(try CatalogTarget("/v1/catalog/us/albums/1").isStorable)
    #expect(try CatalogTarget("/v1/storefronts").isStorable)
    #expect(try CatalogTarget("/v1/language/us/tag").isStorable)
    #expect(try !CatalogTarget("/v1/test").isStorable)
    #expect(try !CatalogTarget("/v1/me/storefront").isStorable)
    #expect(try !CatalogTarget("/v1/catalog/us/songs/1?relate=library").isStorable)
  }

  @Test("each template in the description matches itself", arguments: CatalogTarget.templates)
  func templates(_ template: String) throws {
    let path = Array(Self.filled(template).utf8)
    let target = try CatalogTarget(path: path.span, query: nil, allowsMe: false, hasUserToken: false)
    #expect(target.route.description == template)
    #expect(target.kind != .me)
  }

  @Test("each user template matches a /v1/me resource if /v1/me is forwarded", arguments: CatalogTarget.userTemplates)
  func userTemplates(_ template: String) throws {
    let path = Array(Self.filled(template).utf8)
    let target = try CatalogTarget(path: path.span, query: nil, allowsMe: true, hasUserToken: false)
    #expect(target.kind == .me)
    #expect(target.route.description == template.replacing("{path}", with: "*"))
    #expect(throws: TargetRefusal.self) {
      try CatalogTarget(path: path.span, query: nil, allowsMe: false, hasUserToken: true)
    }
  }

  private static func filled(_ template: String) -> String {
    let values = [
      "storefront": "us", "type": "albums", "id": "1", "relationship": "tracks", "view": "v", "path": "a/b",
    ]
    return values.reduce(template) { $0.replacing("{\($1.key)}", with: $1.value) }
  }
}
