import Glibc
import JSON
import TestSupport
import Testing

@Suite("A response of /token")
struct TokenResponseTests {
  @Test("contains the token and its times, and an origin only if the token has one")
  func members() throws {
    let server = try Ground().serve([:], ["--unsafe-allow-anonymous"])
    let json = try #require(try server.request("/token").json)
    #expect(json.names == ["expiresAt", "expiresIn", "issuedAt", "refreshAfter", "token"])
    let bound = try #require(try server.request("/token?origin=https://app.example.com").json)
    #expect(bound.names == ["expiresAt", "expiresIn", "issuedAt", "origin", "refreshAfter", "token"])
    #expect(bound["origin"]?.strings == ["https://app.example.com"])
  }

  @Test("contains the token's own times, and a refresh time that is not in the past")
  func times() throws {
    let before = time(nil)
    let json = try #require(try Ground().serve().request("/token?ttl=3600").json)
    let after = time(nil)
    let claims = try CompactToken(try #require(json["token"]?.string)).claims
    let issuedAt = try #require(json["issuedAt"]?.integer)
    let expiresAt = try #require(json["expiresAt"]?.integer)
    #expect(claims["iat"]?.integer == issuedAt)
    #expect(claims["exp"]?.integer == expiresAt)
    #expect((before - 60...after - 60).contains(issuedAt))
    #expect((before + 3600...after + 3600).contains(expiresAt))
    #expect((before...expiresAt).contains(try #require(json["refreshAfter"]?.integer)))
    #expect((expiresAt - after...expiresAt - before).contains(try #require(json["expiresIn"]?.integer)))
  }

  @Test("forbids storage, and varies by Origin and Accept")
  func caching() throws {
    let server = try Ground().serve()
    for options in [["-H", "Accept: */*"], ["-H", "Accept: text/plain"], ["-d", "{}"], ["-X", "POST"], ["-I"]] {
      let response = try ParsedResponse(curl: options + ["\(server.url)/token"])
      #expect(response.status == 200)
      #expect(response["Cache-Control"] == "no-store")
      #expect(response["Vary"] == "Origin, Accept")
    }
  }

  @Test("to HEAD has the fields of the response to GET, and no content")
  func head() throws {
    let server = try Ground().serve()
    let get = try server.request("/token")
    let head = try server.request("/token", "-I")
    let varying: Set<String> = ["Date", "X-Request-ID"]
    #expect(head.status == 200)
    #expect(head.body.isEmpty)
    #expect(
      head.fields.filter { !varying.contains($0.name) }.map { "\($0)" }
        == get.fields.filter { !varying.contains($0.name) }.map { "\($0)" })
  }

  @Test("contains the same token for equal claims, and another token for other claims")
  func reuse() throws {
    let server = try Ground().serve([:], ["--unsafe-allow-anonymous"])
    let first = try server.request("/token").token
    #expect(try server.request("/token").token == first)
    #expect(try server.request("/token?ttl=3600").token != first)
    #expect(try server.request("/token?origin=https://app.example.com").token != first)
  }

  @Test("is signed once for each origin in the settings, however many there are")
  func manyOrigins() throws {
    // More than the tokens that the server stores without listed origins.
    let origins = (0..<1100).map { "https://\($0).example" }
    let clients = ["a": origins.prefix(550), "b": origins.suffix(550)].map { id, origins in
      "{ id: '\(id)', origins: ['\(origins.joined(separator: "', '"))'] }"
    }
    let settings = ["ACCESS_CLIENTS": "[\(clients.joined(separator: ", "))]", "CATALOG_ENABLED": "false"]
    let server = try Ground().serve(settings)
    func signatures() throws -> Double? { try MetricsPage(of: server)["musickit_token_signatures_total"] }
    // The server tries its key at the start.
    let before = try #require(try signatures())
    let connection = try server.connect()
    for origin in origins + origins {
      connection.send("GET /token HTTP/1.1\r\nHost: a\r\nOrigin: \(origin)\r\n\r\n")
      #expect(try connection.response().status == 200)
    }
    #expect(try signatures() == before + 1100)
  }

  @Test(
    "is a bare token if Accept prefers this form",
    arguments: [
      ("text/plain", "text/plain"), ("application/jwt", "application/jwt"), ("*/*", "application/json"),
      ("application/json", "application/json"), ("text/plain;q=0.5, application/jwt", "application/jwt"),
      ("application/jwt;q=0.2, application/json;q=0.3", "application/json"), ("TEXT/PLAIN", "text/plain"),
      ("text/plain;q=0, */*;q=0.1", "application/json"), ("image/png", "application/json"), ("", "application/json"),
    ])
  func forms(_ accept: String, _ type: String) throws {
    let response = try Ground().serve().request("/token", "-H", accept.isEmpty ? "Accept;" : "Accept: \(accept)")
    #expect(response.status == 200)
    #expect(response["Content-Type"] == type)
    #expect((response.json != nil) == (type == "application/json"))
    if type != "application/json" { #expect(try CompactToken(response.text).signature.count == 64) }
  }
}
