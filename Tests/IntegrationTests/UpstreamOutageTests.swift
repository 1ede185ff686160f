import Glibc
import JSON
import TestSupport
import Testing

@Suite("An outage of Apple")
struct UpstreamOutageTests {
  private static let album = "/v1/catalog/us/albums/1200868601"
  private static let song = "/v1/catalog/us/songs/1200868616"

  @Test("leaves stale responses and clear errors, and ends without a restart")
  func staleIfError() throws {
    let ground = try UpstreamGround()
    let port = UpstreamGround.fixedPort
    let sandbox = try ground.sandbox("--cache-fields", "none", port: port)
    let stale = [
      "CATALOG_CACHE_LIFETIME": "0s", "CATALOG_CACHE_STALE_WHILE_REVALIDATE": "0s",
      "CATALOG_TIMEOUTS_STALE_AFTER": "10m",
    ]
    let server = try ground.serve(sandbox.url, stale)
    let fresh = try server.request(Self.album)
    #expect(fresh.status == 200)
    #expect(sandbox.stop() == 0)

    for _ in 0..<10 {
      let stored = try server.request(Self.album)
      #expect(stored.status == 200)
      #expect(stored.body == fresh.body)
      #expect(try #require(stored["Cache-Status"]).contains("detail=\"stale-if-error\""))
      #expect(try #require(stored["Proxy-Status"]).contains("error="))
      #expect(stored["Age"] != nil)
      let other = try server.request(Self.song)
      #expect(other.status == 502)
      #expect(other.errorCode == "upstream_error")
      #expect(other["Cache-Status"]?.contains("fwd=uri-miss") == true)
    }
    let strict = try server.request(Self.album, "-H", "Cache-Control: max-age=0, stale-if-error=0")
    #expect(strict.status == 502)

    let back = try ground.sandbox("--cache-fields", "none", port: port)
    let start = ContinuousClock.now
    try eventually("there are fresh responses") { try server.request(Self.song).status == 200 }
    let recovery = ContinuousClock.now - start
    print("Back after \(recovery)")
    try eventually("what is stored is fetched anew") {
      try server.request(Self.album)["Proxy-Status"] == nil
    }
    #expect(try back.requestsSeen() > 0)
  }

  @Test("gives a stale response while Apple is silent, and stores Apple's late response")
  func staleAfter() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let stale = ["CATALOG_CACHE_LIFETIME": "0s", "CATALOG_CACHE_STALE_WHILE_REVALIDATE": "0s"]
    let server = try ground.serve(upstream, stale)
    #expect(try server.request(Self.album).status == 200)
    try upstream.behave("hold")
    for _ in 0..<3 {
      let response = try server.request(Self.album)
      #expect(response.status == 200)
      #expect(try #require(response["Cache-Status"]).contains("fwd=stale"))
      #expect(try #require(response["Cache-Status"]).contains("detail=\"stale-after\""))
      #expect(response["Age"] != nil && response["Proxy-Status"] == nil)
    }
    #expect(try upstream.count("requests") == 2, "the request to Apple goes on, for all of them")
    #expect(try upstream.count("gone") == 0)
    let metrics = try server.admin("/metrics").text
    #expect(metrics.contains("musickit_cache_stale_while_waiting_total 3"))
    try upstream.behave("ok")
    try upstream.release()
    try eventually("there are fresh responses") {
      try server.request(Self.album)["Cache-Status"]?.contains("stored") == true
    }
  }

  @Test("of many callers at once leaves stale responses, or 503 beyond this server's capacity")
  func overload() throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script()
    let server = try ground.serve(
      upstream,
      [
        "CATALOG_CACHE_LIFETIME": "0s", "CATALOG_CACHE_STALE_WHILE_REVALIDATE": "0s", "SERVER_LIMITS_BURST": "1s",
        "SERVER_LOOPS": "1",
      ])
    let fresh = try server.request(Self.album)
    #expect(fresh.status == 200)
    // Failures come at once, so the callers come again at once.
    upstream.stop(SIGKILL)
    // They come from the address of the other requests here, whose line is full as long as they wait in it. They are so
    // many that the last one waits longer than 150 ms in any build: 600 did not.
    let load = try ground.load(server, 1500, "forever")
    var refusal: ParsedResponse?
    try eventually("a request without a stored response is refused") {
      refusal = try server.request(Self.song)
      return refusal?.errorCode == "overloaded"
    }
    #expect(refusal?.status == 503)
    #expect(refusal?["Retry-After"] == "1")
    // A loop that is behind does not look for a stale response; otherwise it needs no request to Apple.
    for _ in 0..<20 {
      let response = try server.request(Self.album)
      guard response.status == 200 else {
        #expect(response.errorCode == "overloaded")
        #expect(response["Retry-After"] == "1")
        continue
      }
      #expect(response.body == fresh.body)
      // On a slow machine the wait for an attempt may end before the attempt does.
      let reason = try #require(response["Cache-Status"])
      #expect(reason.contains("detail=\"stale-if-error\"") || reason.contains("detail=\"stale-after\""), "\(reason)")
    }
    load.closeInput()
    #expect(try load.loadReport().wrong == .array([]))
  }

  @Test(
    "under load gives only correct responses and proper errors, and ends without a restart",
    arguments: [nil, 100])
  func revival(_ streams: Int?) throws {
    let ground = try UpstreamGround()
    let port = UpstreamGround.fixedPort
    var upstream = try ground.script(streams: streams, port: port)
    let server = try ground.serve(upstream, ["LOG_LEVEL": "warning"])
    let load = try ground.load(server, 32, "forever")
    for _ in 0..<2 {
      for _ in 0..<4 { _ = try load.line() }
      upstream.stop(SIGKILL)
      for _ in 0..<4 { _ = try load.line() }
      upstream = try ground.script(streams: streams, port: port)
      try eventually("it is used again") { try upstream.count("requests") > 100 }
    }
    load.closeInput()
    let (statuses, wrong) = try load.loadReport()
    #expect(wrong == .array([]))
    #expect(try #require(statuses["200"]) > 200)
    #expect(Set(statuses.keys).isSubset(of: ["200", "429", "502", "503", "504"]), "\(statuses)")
    for number in 0..<20 {
      #expect(try server.request("/v1/catalog/us/albums/\(number)").status == 200)
    }
  }
}
