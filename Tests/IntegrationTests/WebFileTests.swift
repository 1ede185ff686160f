import TestSupport
import Testing

@Suite("A file of the page")
struct WebFileTests {
  private static let paths = ["/", "/page/page.css", "/page/page.js"]

  @Test("exists on the public listener only with server.page, on the admin listener only with admin.page")
  func settings() throws {
    for (isPublic, isAdmin) in [(false, false), (true, false), (false, true)] {
      let server = try Ground().serve(["SERVER_PAGE": "\(isPublic)", "ADMIN_PAGE": "\(isAdmin)"])
      for path in Self.paths {
        #expect(try server.request(path).status == (isPublic ? 200 : 404), "\(path)")
        #expect(try server.admin(path).status == (isAdmin ? 200 : 404), "\(path)")
      }
    }
  }

  @Test("is compressed, has a type, and is not sent again", arguments: paths)
  func caches(path: String) throws {
    let server = try Ground().serve(["SERVER_PAGE": "true"])
    let plain = try server.request(path)
    let compressed = try server.request(path, "--compressed")
    #expect(compressed["Content-Encoding"] == "gzip" && compressed.body == plain.body)
    #expect(plain["Content-Encoding"] == nil && plain["Content-Type"]?.hasPrefix("text/") == true)
    let tag = try #require(plain["ETag"])
    #expect(compressed["ETag"] == tag)
    for response in [plain, compressed] {
      #expect(response["Vary"] == "Accept-Encoding, Origin" && response["Cache-Control"] == "no-cache")
      #expect(response["X-Content-Type-Options"] == "nosniff")
    }
    let again = try server.request(path, "-H", "If-None-Match: \(tag)")
    #expect(again.status == 304 && again.body.isEmpty && again["ETag"] == tag)
    #expect(again["Content-Type"] == nil && again["Content-Encoding"] == nil)
    #expect(try server.request(path, "-X", "POST").status == 405)
  }
}
