import JSON
import TestSupport
import Testing

@Suite("A response of Apple with the wrong length")
struct UpstreamContentTests {
  private static let song = "/v1/catalog/us/songs/1"
  private static let protocols: [Int?] = [nil, 100]

  @Test("is an error and is not stored", arguments: ["long", "cut"], protocols)
  func buffered(_ behaviour: String, _ streams: Int?) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: streams)
    let server = try ground.serve(upstream)
    try upstream.behave(behaviour)
    for _ in 0..<2 {
      let broken = try server.request(Self.song)
      #expect(broken.status == 502)
      #expect(broken.errorCode == "upstream_error")
      #expect(broken["Proxy-Status"]?.contains("error=http_") == true)
      #expect(!broken.text.contains("href"))
    }
    #expect(try upstream.count("requests") >= 2)
    try upstream.behave("ok")
    let whole = try server.request(Self.song)
    #expect(whole.status == 200)
    #expect(whole.text == #"{"data": [{"href": "\#(Self.song)"}]}"#)
    #expect(try server.request(Self.song)["Cache-Status"]?.contains("hit") == true)
  }

  @Test(
    "breaks off at the client as well if it is too long for the cache", arguments: ["big-long", "big-cut"], protocols)
  func streamed(_ behaviour: String, _ streams: Int?) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: streams)
    let server = try ground.serve(upstream)
    try upstream.behave(behaviour)
    for _ in 0..<2 {
      let result = try run("curl", ["-sS", "--noproxy", "*", "\(server.url)\(Self.song)"])
      // CURLE_PARTIAL_FILE, CURLE_RECV_ERROR: the connection ended or was reset before the content was complete.
      #expect([18, 56].contains(result.status), "\(result.stderr)")
    }
    try upstream.behave("big")
    let whole = try server.request(Self.song)
    #expect(whole.status == 200)
    #expect(whole.body.count == 3_000_000 + #"{"data": [""]}"#.utf8.count)
    #expect(whole["Cache-Status"]?.contains("stored") != true)
  }

  @Test("and surplus content does not affect other responses", arguments: protocols)
  func surplus(_ streams: Int?) throws {
    let ground = try UpstreamGround()
    let upstream = try ground.script(streams: streams)
    let server = try ground.serve(upstream)
    for number in 0..<5 {
      try upstream.behave("short")
      let response = try server.request("/v1/catalog/us/albums/\(number)")
      // HTTP/1.1 cannot detect this: bytes after the content are no part of the content.
      #expect(response.status == (streams == nil ? 200 : 502))
      try upstream.behave("ok")
      let other = "/v1/catalog/us/songs/\(number)"
      #expect(try server.request(other).text == #"{"data": [{"href": "\#(other)"}]}"#)
    }
  }
}
