import Glibc
import JSON
import TestSupport
import Testing

@Suite("HTTP/2 to Apple")
struct UpstreamHTTP2Tests {
  private static let song = "/v1/catalog/us/songs/1200868616"

  @Test("carries several hundred concurrent requests on few connections, within the stream limit")
  func multiplexing() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 50)
    let server = try ground.serve(upstream)
    try upstream.behave("hold")
    let load = try ground.load(server, 400)
    while try #require(try load.line()) != "sent" {}
    try eventually("many are under way") { try upstream.count("held") > 150 }
    #expect(try upstream.count("connections") <= 8)
    try upstream.behave("ok")
    try upstream.release()
    let (statuses, wrong) = try load.loadReport()
    #expect(statuses == ["200": 400])
    #expect(wrong == .array([]))
    #expect(try upstream.count("connections") <= 8)
    #expect(try upstream.count("most") <= 50)
  }

  // HTTPClientTests do it with ten thousand.
  @Test("carries a thousand concurrent requests on few connections with 100 streams each")
  func thousand() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    let settings = [
      "SERVER_LIMITS_CONNECTIONS": "2500", "SERVER_LIMITS_CONNECTIONS_PER_ADDRESS": "2500", "LOG_LEVEL": "warning",
      // A peer that has more of them at a time answers no ping in time on a busy machine.
      "CATALOG_CONCURRENCY": "200",
    ]
    let server = try ground.serve(upstream, settings)
    try upstream.behave("hold")
    let load = try ground.load(server, 1000)
    while try #require(try load.line()) != "sent" {}
    try eventually("many are under way") { try upstream.count("held") > 150 }
    let mostInFlight = 250
    #expect(try upstream.count("requests") < mostInFlight, "the others wait here")
    // Before a response, the wait of a request is unknown. After the first response, the server would refuse those that
    // have not arrived, because they would wait for longer than a second.
    try eventually("the others wait") {
      try MetricsPage(of: server)["musickit_upstream_requests_waiting"] ?? 0 > Double(1000 - mostInFlight)
    }
    try upstream.behave("ok")
    try upstream.release()
    let (statuses, wrong) = try load.loadReport()
    #expect(statuses == ["200": 1000])
    #expect(wrong == .array([]))
    #expect(try upstream.count("connections") <= 8)
    #expect(try upstream.count("most") <= 100)
  }

  @Test("loses no request when nginx ends each connection after a hundred requests, under load")
  func goAway() throws {
    let ground = try UpstreamGround()
    let nginx = try NginxUpstream(ground)
    let server = try ground.serve(nginx.url, ["CATALOG_CA_FILE": ground.ground.certificateFile])
    let (statuses, wrong) = try ground.load(server, 2000).loadReport()
    #expect(statuses == ["200": 2000])
    #expect(wrong == .array([]))
    let connections = try nginx.connections()
    // A retry may follow a request that nginx has, or one that it has refused.
    let retries = try #require(try MetricsPage(of: server)["musickit_upstream_retries_total"])
    #expect((2000...2000 + Int(retries)).contains(connections.values.reduce(0, +)))
    #expect(connections.count >= 20)
    #expect(Set(connections.keys.map(\.protocolName)) == ["HTTP/2.0"])
  }

  @Test("completes the requests in flight after a GOAWAY")
  func goAwayWithOthers() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    let server = try ground.serve(upstream, ["SERVER_LOOPS": "1"])
    try upstream.behave("hold")
    let load = try ground.load(server, 50)
    try eventually("they are under way") { try upstream.count("held") == 50 }
    #expect(try server.request("/v1/catalog/us/songs/1?do=goaway").status == 200)
    #expect(try server.request("/v1/catalog/us/songs/2?do=ok").status == 200)
    #expect(try upstream.count("connections") == 2)
    try upstream.release()
    let (statuses, wrong) = try load.loadReport()
    #expect(statuses == ["200": 50])
    #expect(wrong == .array([]))
    #expect(try upstream.count("requests") == 52)
  }

  @Test("retries a refused stream, whatever the method", arguments: ["GET", "POST"])
  func refusedStream(_ method: String) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    let server = try ground.serve(upstream)
    let target = "/v1/me/library?do=refuse"
    #expect(try server.request(target, "-X", method, "-H", "Music-User-Token: user").status == 200)
    #expect(try upstream.count("requests") == 2)
  }

  @Test("retries a request whose connection breaks after others refused it")
  func refusedAndBroken() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    let server = try ground.serve(upstream)
    #expect(try server.request("\(Self.song)?do=refuse,refuse,break-end").status == 200)
    #expect(try upstream.count("requests") == 4)
    #expect(try server.request("\(Self.song)?do=refuse,break-end,break-end").status == 502)
    #expect(try upstream.count("requests") == 7)
  }

  @Test("gives way to HTTP/1.1 if the upstream allows too few bytes of header fields")
  func smallHeaderList() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    let server = try ground.serve(upstream, ["SERVER_LOOPS": "1"])
    try upstream.behave("narrow")
    // The first request is sent before the settings are known.
    for number in 1...5 { #expect(try server.request("/v1/catalog/us/songs/\(number)").status == 200) }
    #expect(try upstream.count("connections") == 3, "two of HTTP/2, one of HTTP/1.1 that is kept")
  }

  @Test("retries a request on another connection if the upstream does not answer a PING")
  func silence() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    // 10 s for the answer, which a busy machine does not reach on the other connection.
    let server = try ground.serve(upstream, ["SERVER_LOOPS": "1", "CATALOG_TIMEOUTS_CONNECT": "20s"])
    #expect(try server.request("\(Self.song)?do=mute").status == 200)
    #expect(try upstream.count("connections") == 2)
    #expect(try upstream.count("requests") == 2)
  }

  @Test(
    "ends a request whose client has disconnected if Apple does not respond in time, and so does HTTP/1.1",
    arguments: [nil, 100])
  func cancellation(_ streams: Int?) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: streams)
    let server = try ground.serve(upstream, ["SERVER_LOOPS": "1", "CATALOG_TIMEOUTS_FIRST_BYTE": "1s"])
    try upstream.behave("hold")
    do {
      let caller = try server.connect()
      caller.send("GET \(Self.song) HTTP/1.1\r\nHost: a\r\n\r\n")
      try eventually("it is under way") { try upstream.count("held") == 1 }
    }
    try eventually("it is cancelled") { try upstream.count("gone") == 1 }
    #expect(try upstream.count("held") == 0)
    try upstream.behave("ok")
    #expect(try server.request(Self.song).status == 200)
    #expect(try upstream.count("connections") == (streams == nil ? 2 : 1))
  }
}
