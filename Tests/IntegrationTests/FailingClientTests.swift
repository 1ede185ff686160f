import JSON
import TestSupport
import Testing

@Suite("A client whose requests fail")
struct FailingClientTests {
  @Test("does not affect another client", arguments: ["status=500", "status=503"])
  func otherClient(_ fault: String) throws {
    let clients = try ["bad", "good"].map {
      "{ id: '\($0)', apiKey: { sha256: '\(try AccessGround.sha256("\($0)-key"))' }, catalog: true }"
    }
    let ground = try CatalogGround([
      "ACCESS_CLIENTS": "[\(clients.joined(separator: ","))]", "ACCESS_ANONYMOUS": "", "CATALOG_CACHE_MAX_BYTES": "0",
    ])
    func ask(_ target: String, _ client: String) throws -> ParsedResponse {
      try ground.request(target, "-H", "X-API-Key: \(client)-key")
    }
    #expect(try ask(CatalogGround.album, "good").status == 200)
    try ground.emulator.fail(fault, path: "/v1/catalog/us/songs/")
    var failed = 0
    for round in 0..<15 {
      for number in 0..<4 where try ask("/v1/catalog/us/songs/1200868616?x=\(4 * round + number)", "bad").status >= 500
      {
        failed += 1
      }
      let response = try ask(CatalogGround.album, "good")
      #expect(response.status == 200, "\(response.text)")
    }
    #expect(failed == 60)
    #expect(try ground.request("/readyz").json?["status"]?.string == "ready")
  }

  @Test("does not block the catalog for later clients")
  func laterClient() throws {
    let clients = "[{ id: 'good', apiKey: { sha256: '\(try AccessGround.sha256("good-key"))' }, catalog: true }]"
    let ground = try CatalogGround(["ACCESS_CLIENTS": clients, "CATALOG_CACHE_MAX_BYTES": "0"])
    try ground.emulator.fail("status=503", path: "/v1/catalog/us/songs/")
    var number = 0
    try eventually("the catalog is said not to be ready") {
      number += 1
      _ = try ground.request("/v1/catalog/us/songs/1200868616?x=\(number)")
      return try ground.request("/readyz").json?["status"]?.string != "ready"
    }
    let response = try ground.request(CatalogGround.album, "-H", "X-API-Key: good-key")
    #expect(response.status == 200, "\(response.text)")
    #expect(try ground.request("/readyz").json?["status"]?.string == "ready")
  }

  @Test("is throttled only for the failing resource")
  func resource() throws {
    let ground = try CatalogGround(["CATALOG_CACHE_MAX_BYTES": "0"])
    let song = "/v1/catalog/us/songs/1200868616"
    try ground.emulator.fail("status=500", path: song)
    let caller = try ground.connect()
    var refusals = 0
    for _ in 0..<100 {
      caller.send("GET \(song) HTTP/1.1\r\nHost: a\r\n\r\n")
      let response = try caller.response()
      #expect(response.status == 502)
      if response["Retry-After"] != nil { refusals += 1 }
    }
    #expect(refusals > 0)
    #expect(try ground.emulator.count() + refusals == 100)
    #expect(try ground.request(CatalogGround.album).status == 200)
    #expect(try ground.request("/readyz").json?["status"]?.string == "ready")
  }
}
