import JSON
import TestSupport
import Testing

@Suite("Concurrent requests for the same target")
struct CollapsingTests {
  @Test("cause one upstream request, and all get the response", arguments: [false, true])
  func thousand(_ isSecure: Bool) throws {
    let ground = try CatalogGround(isSecure: isSecure)
    try ground.emulator.fail("delay=1s")
    let herd = try Self.herd(1000, ground)
    #expect(herd["statuses"]?["200"]?.integer == 1000)
    #expect(herd["bodies"]?.integer == 1)
    #expect(herd["ids"]?.integer == 1000)
    #expect(try #require(herd["collapsed"]?.integer) > 0)
    #expect(try ground.emulator.count() == 1)
  }

  @Test("each get their own response if the response is private")
  func unshared() throws {
    let body = "{}"
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: private\r\nConnection: close\r\n"
    let upstream = try RawUpstream(["one": "\(head)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"])
    let server = try upstream.serve(try Ground())
    let script = [Repository.script("herd.py"), "\(server.port)", "30", "/v1/catalog/us/songs/one"]
    let herd = try #require(JSONReader.read(try run(Repository.python, script).standardOutput))
    #expect(herd["statuses"]?["200"]?.integer == 30)
    #expect(herd["collapsed"]?.integer == 0)
    for _ in 0..<30 { #expect(try upstream.next()["line"]?.string?.contains("/songs/one") == true) }
  }

  @Test("share an upstream error, each with its own request ID")
  func error() throws {
    let ground = try CatalogGround()
    try ground.emulator.fail("delay=1s,status=503", count: 1)
    let herd = try Self.herd(100, ground)
    let failed = herd["statuses"]?["502"]?.integer ?? 0
    #expect(failed > 1)
    #expect(failed + (herd["statuses"]?["200"]?.integer ?? 0) == 100)
    #expect(herd["ids"]?.integer == 100)
    #expect(try #require(herd["bodies"]?.integer) >= failed, "each error bears its request's own ID")
  }

  @Test("get the response even if the first client disconnects")
  func leader() throws {
    let ground = try CatalogGround()
    try ground.emulator.fail("delay=1s")
    let request = "GET \(CatalogGround.album) HTTP/1.1\r\nHost: a\r\n\r\n"
    var leader: RawConnection? = try ground.connect()
    leader?.send(request)
    try ground.emulator.waitForRequests(1)
    let others = try (0..<10).map { _ in try ground.connect() }
    for other in others { other.send(request) }
    leader = nil
    let original = try ground.original(CatalogGround.album)
    for other in others {
      let response = try other.response()
      #expect(response.status == 200 && response.body == original.body)
    }
    #expect(leader == nil)
  }

  @Test("leave nothing behind if all clients disconnect")
  func abandoned() throws {
    let ground = try CatalogGround()
    try ground.emulator.fail("delay=1s", count: 1)
    do {
      let connections = try (0..<10).map { _ in try ground.connect() }
      for connection in connections { connection.send("GET \(CatalogGround.album) HTTP/1.1\r\nHost: a\r\n\r\n") }
      try ground.emulator.waitForRequests(1)
    }
    #expect(try ground.request(CatalogGround.album).status == 200)
    #expect(ground.server.stop() == 0)
  }

  @Test("each get the form that they accept")
  func forms() throws {
    let ground = try CatalogGround()
    try ground.emulator.fail("delay=1s")
    let head = "\(CatalogGround.album) HTTP/1.1\r\nHost: a\r\n"
    let requests = ["GET \(head)", "GET \(head)Accept-Encoding: gzip\r\n", "HEAD \(head)"]
    let connections = try requests.map { request in
      let connection = try ground.connect()
      connection.send(request + "Connection: close\r\n\r\n")
      return connection
    }
    let responses = try connections.map { try #require(ParsedResponse(Array(try $0.receiveAll().utf8))) }
    #expect(responses.map(\.status) == [200, 200, 200])
    #expect(responses.map { $0["Content-Encoding"] } == [nil, "gzip", nil])
    #expect(responses[2].body.isEmpty && responses[2]["Content-Length"] == responses[0]["Content-Length"])
  }

  private static func herd(_ count: Int, _ ground: CatalogGround) throws -> JSONValue {
    let result = try run(
      Repository.python, [Repository.script("herd.py"), "\(ground.server.port)", "\(count)", CatalogGround.album])
    guard let herd = JSONReader.read(result.standardOutput) else { throw TestFailure("No herd: \(result.stderr)") }
    return herd
  }
}
