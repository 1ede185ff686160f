import JSON
import TestSupport
import Testing

@Suite("A hostile path")
struct CatalogPathTests {
  private static let album = "/v1/catalog/us/albums/1200868601"

  private static let dots = [
    "/v1/catalog/us/../../me/library/songs", "/v1/catalog/us/albums/..", "/v1/catalog/us/./albums/1200868601",
    "/v1/catalog/us/albums/.", "/v1/catalog/us/%2e%2e/albums", "/v1/catalog/us/%2E%2e/albums",
    "/v1/catalog/us/.%2e/albums", "/v1/catalog/us/%2e./albums", "/v1/catalog/us/%2e/albums/1200868601",
    "/v1/catalog/us/.../albums", "/v1/catalog/us/..;/albums", "/v1/catalog/us/%252e%252e/albums",
    "/v1/catalog/us/..%2falbums", "/v1/catalog/us/..%5calbums", "/v1/catalog/us/%c0%ae%c0%ae/albums",
    "/v1/catalog/us/%u002e%u002e/albums", "/../v1/catalog/us/albums/1200868601", "/token/../v1/catalog/us/genres",
    "/v1/../v1/catalog/us/genres",
  ]
  private static let separators = [
    "/v1/catalog/us/albums%2f1200868601", "/v1/catalog/us/albums%2F1200868601", "/v1/catalog/us%2falbums/1200868601",
    "/v1%2fcatalog/us/albums/1200868601", "/v1/catalog/us/albums%252f1200868601", "/v1/catalog/us/albums\\1200868601",
    "/v1\\catalog/us/albums/1200868601", "/v1/catalog/us/albums%5c1200868601", "/v1/catalog/us/albums%5C1200868601",
    "/v1//catalog/us/albums/1200868601", "//v1/catalog/us/albums/1200868601", "/v1/catalog//albums/1200868601",
    "/v1/catalog/us/albums//1200868601", "\(album)//", "//evil.example\(album)",
  ]
  private static let characters = [
    "\(album);x=y", "/v1;x/catalog/us/albums/1200868601", "\(album)%3bx", "\(album)%00", "\(album)%0a",
    "\(album)%0d%0aX:y",
    "\(album)%20", "\(album)%7f", "\(album)\u{01}", "\(album)\u{7f}", "\(album)\tx", "/v1/catalog/us/albums/é",
    "/v1/catalog/us/albums/%c3%a9", "/v1/catalog/us/albums/%ff", "/v1/catalog/us/albums/%c0%af", "\(album)%",
    "\(album)%3",
    "\(album)%zz", "\(album)%25", "\(album)#x", "\(album)%23x", "\(album):x", "\(album)@evil.example", "\(album)*",
    "\(album),1", "\(album)%3f", "\(album)&x",
  ]
  private static let names = [
    "/V1/catalog/us/albums/1200868601", "/v1/Catalog/us/albums/1200868601", "/v1/catalog/usa/albums/1200868601",
    "/v1/catalog/u1/albums/1200868601", "/v1/catalog", "/v1/", "/v1",
    "/v1/nothing", "/v1/test/more", "/v1/language/us", "/v1/language/us/tags", "/v1/me", "/v1/%6de/library/songs",
    "/%761/catalog/us/albums/1200868601", "/v2/catalog/us/albums/1200868601", "/sandbox/log", "/v1/sandbox/log",
    "/v1/catalog/us/albums/" + String(repeating: "1", count: 257),
    "/v1/catalog/us" + String(repeating: "/a", count: 20),
    "/v1/catalog/us" + String(repeating: "/aaaaaaaaaaaaaaaa", count: 200),
  ]
  private static let queries = [
    "\(album)?x=%00", "\(album)?x=%0d%0aX:%20y", "\(album)?x=\u{01}", "\(album)?x=%zz", "\(album)?x=%",
    "\(album)?x=%ff",
    "\(album)?x=é", "\(album)?x=\u{1f3b8}", "\(album)?x=#y", "\(album)?x=%7f", "\(album)?x=y z",
    "\(album)?" + String(repeating: "a&", count: 200),
  ]
  private static let forms = [
    "http://evil.example/v1/me/library/songs", "http://evil.example/v1/catalog/us/../../me/library",
    "http://evil.example", "http://evil.example/", "https://user@evil.example\(album)", "ftp://evil.example\(album)",
    "http:\(album)", "http://\(album)", "http://evil.example:99999\(album)", "http://evil example\(album)",
    "evil.example:443", "evil.example\(album)", "v1/catalog/us/albums/1200868601", "*", "?x", "file:///etc/passwd",
    "http://[::1\(album)", "http://evil.example\\\(album)",
  ]

  @Test(
    "gets an error object and does not reach Apple",
    arguments: [dots, separators, characters, names, queries, forms])
  func refused(_ targets: [String]) throws {
    let ground = try CatalogGround()
    for target in targets {
      let connection = try ground.connect()
      connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      let response = try connection.response()
      #expect([400, 404].contains(response.status), "\(target): \(response.status)")
      #expect(response.error?["status"]?.string == "\(response.status)", "\(target): \(response.text)")
      #expect(["malformed_request", "not_found"].contains(response.errorCode), "\(target): \(response.text)")
      #expect(response["Cache-Control"] == "no-store", "\(target)")
    }
    #expect(try ground.emulator.requests().map(\.path) == [])
  }

  @Test(
    "that programs send and Apple means in one way only reaches Apple in its normal form",
    arguments: [
      ("\(album)/", album, nil), ("\(album)/?l=de", album, "l=de"),
      ("/v1/catalog/US/albums/1200868601", album, nil), ("/v1/catalog/uS/albums/1200868601/", album, nil),
      (
        "/v1/catalog/us/search/?term=\"a\"<b>&types=albums", "/v1/catalog/us/search", "term=%22a%22%3Cb%3E&types=albums"
      ),
    ] as [(String, String, String?)])
  func passedOn(_ target: String, _ path: String, _ query: String?) throws {
    let ground = try CatalogGround()
    let connection = try ground.connect()
    connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try connection.response().status == 200)
    let requests = try ground.emulator.requests()
    #expect(requests.map(\.path) == [path])
    #expect(requests.map { $0.query ?? "" } == [query ?? ""])
  }

  @Test("beyond ASCII gets a sentence with the encoded part, and the connection goes on")
  func beyondASCII() throws {
    let ground = try CatalogGround()
    let connection = try ground.connect()
    for (target, written) in [
      ("/v1/catalog/us/search?types=songs&term=Beyoncé", "%C3%A9"), ("/v1/catalog/us/albums/日", "%E6%97%A5"),
    ] {
      connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      let response = try connection.response()
      #expect(response.status == 400 && response.errorDetail?.contains("write \(written)") == true)
    }
    connection.send("GET \(Self.album) HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try connection.response().status == 200)
  }

  @Test("with unnecessary escapes reaches Apple in its normal form")
  func escaped() throws {
    let ground = try CatalogGround()
    #expect(try ground.request("/v1/%63atalog/us/%61lbums/%31200868601").status == 200)
    #expect(try ground.emulator.requests().map(\.path) == [Self.album])
    #expect(try ground.request(Self.album).isHit)
  }

  @Test("with another authority leads to Apple, without this authority")
  func absolute() throws {
    let ground = try CatalogGround()
    let connection = try ground.connect()
    connection.send("GET http://evil.example\(Self.album) HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    let response = try connection.response()
    #expect(response.status == 200)
    #expect(!response.text.contains("evil.example"))
    #expect(response.body == (try ground.original(Self.album).body))
  }

  @Test("cannot reach /v1/me through the catalog if /v1/me is enabled")
  func user() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    for target in [
      "/v1/catalog/../me/library/songs", "/v1/catalog/us/..%2f..%2fme/library", "/v1/me/../test", "/v1/me/",
    ] {
      let connection = try ground.connect()
      connection.send("GET \(target) HTTP/1.1\r\nHost: a\r\nMusic-User-Token: sandbox-user-token\r\n\r\n")
      #expect([400, 404].contains(try connection.response().status), "\(target)")
    }
    #expect(try ground.emulator.count() == 0)
  }
}
