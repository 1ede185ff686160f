import JSON
import TestSupport
import Testing

@Suite("The end of an HTTP/2 connection to Apple with many requests")
struct UpstreamHTTP2EndTests {
  private static let song = "/v1/catalog/us/songs/1200868616"

  @Test(
    "causes a retry of each request without a response, and no request is lost",
    arguments: ["break-settings", "break-hpack", "break-continuation", "break-end", "mute"])
  func retried(_ end: String) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    // 10 s for the answer to a ping, which a busy machine does not reach on the next connection.
    let server = try ground.serve(upstream, ["SERVER_LOOPS": "1", "CATALOG_TIMEOUTS_CONNECT": "20s"])
    try upstream.behave("hold")
    let load = try ground.load(server, 48)
    try eventually("they are under way") { try upstream.count("held") == 48 }
    #expect(try server.request("\(Self.song)?do=\(end)").status == 200)
    try eventually("they are under way again") { try upstream.count("held") == 48 && upstream.count("requests") >= 98 }
    try upstream.release()
    let (statuses, wrong) = try load.loadReport()
    #expect(statuses == ["200": 48])
    #expect(wrong == .array([]))
  }

  @Test(
    "and of each later one causes 502 or a stale response, and the log has the reason",
    arguments: [
      ("break-settings", "FRAME_SIZE_ERROR"), ("break-hpack", "COMPRESSION_ERROR"),
      ("break-continuation", "CONTINUATION"), ("headless", "SETTINGS expected"),
    ])
  func failed(_ behaviour: String, _ reason: String) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: 100)
    let stale = ["CATALOG_CACHE_LIFETIME": "0s", "CATALOG_CACHE_STALE_WHILE_REVALIDATE": "0s", "SERVER_LOOPS": "1"]
    let server = try ground.serve(upstream, stale)
    let stored = try server.request(Self.song)
    #expect(stored.status == 200)
    try upstream.behave(behaviour)
    // An earlier connection has already received its SETTINGS.
    if behaviour == "headless" { _ = try server.request("/v1/catalog/us/songs/1?do=goaway") }

    let failed = try server.request("/v1/catalog/us/songs/2")
    #expect(failed.status == 502)
    #expect(failed.errorCode == "upstream_error")
    #expect(failed["Proxy-Status"]?.contains("error=http_protocol_error") == true)
    let again = try server.request(Self.song)
    #expect(again.status == 200)
    #expect(again.body == stored.body)
    #expect(again["Cache-Status"]?.contains("stale-if-error") == true)
    #expect(again["Proxy-Status"]?.contains("error=http_protocol_error") == true)
    try eventually("the circuit opens") {
      _ = try server.request("/v1/catalog/us/songs/3")
      return try MetricsPage(of: server)["musickit_upstream_circuit_open"] == 1
    }
    _ = server.stop()
    #expect(server.log.contains("broke the HTTP/2 protocol"))
    #expect(server.log.contains(reason))
  }
}
