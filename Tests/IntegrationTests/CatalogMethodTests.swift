import TestSupport
import Testing

@Suite("A method")
struct CatalogMethodTests {
  private static let user = "Music-User-Token: sandbox-user-token"

  @Test(
    "other than GET, HEAD and OPTIONS gets 405 from the catalog",
    arguments: ["POST", "PUT", "PATCH", "DELETE", "TRACE"])
  func catalog(_ method: String) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    for path in [CatalogGround.album, "/v1/storefronts", "/v1/language/us/tag", "/v1/test"] {
      let response = try ground.request(path, "-X", method)
      #expect(response.status == 405, "\(path)")
      #expect(response.errorCode == "method_not_allowed", "\(path)")
      #expect(response["Allow"] == "GET, HEAD, OPTIONS", "\(path)")
    }
    #expect(try ground.emulator.count() == 0)
  }

  @Test("that Apple documents below /v1/me is forwarded unchanged", arguments: ["POST", "PUT", "PATCH", "DELETE"])
  func user(_ method: String) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    _ = try ground.request("/v1/me/library/nothing", "-X", method, "-H", Self.user, "-d", "{}")
    let request = try #require(try ground.emulator.requests().first)
    #expect(request.method == method)
    #expect(request["content-length"] == "2")
  }

  @Test("that Apple does not document below /v1/me gets 405")
  func trace() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    let response = try ground.request("/v1/me/library/songs", "-X", "TRACE", "-H", Self.user)
    #expect(response.status == 405)
    #expect(response["Allow"] == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
    #expect(try ground.emulator.count() == 0)
  }

  @Test("that the server does not know gets 501", arguments: ["FOO", "get", "PROPFIND", "CONNECT"])
  func unknown(_ method: String) throws {
    let ground = try CatalogGround()
    let connection = try ground.connect()
    connection.send("\(method) \(method == "CONNECT" ? "a:443" : CatalogGround.album) HTTP/1.1\r\nHost: a:443\r\n\r\n")
    let response = try connection.response()
    #expect(response.status == 501)
    #expect(response.errorCode == "not_implemented")
    #expect(try ground.emulator.count() == 0)
  }

  @Test("in an override field has no effect")
  func override() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    let response = try ground.request(
      CatalogGround.album, "-H", "X-HTTP-Method-Override: DELETE", "-H", "X-Method-Override: DELETE")
    #expect(response.status == 200)
    #expect(try ground.emulator.requests().map(\.method) == ["GET"])
  }
}
