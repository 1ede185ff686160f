import HTTP1
import JSON
import Testing

@testable import MusicSandbox

@Suite("A limit of the emulator")
struct LimitTests {
  @Test(
    "has a parsed form for each algorithm",
    arguments: [
      ("bucket:20/1s", RequestLimit.Algorithm.bucket, 20, 1000, 20),
      ("bucket:20/1s,burst=5", .bucket, 20, 1000, 5), ("fixed-window:300/60s", .fixedWindow, 300, 60_000, 300),
      ("sliding-window:5/500ms", .slidingWindow, 5, 500, 5),
    ])
  func reading(text: String, algorithm: RequestLimit.Algorithm, requests: Int, milliseconds: Int, burst: Int) throws {
    let limit = try #require(RequestLimit(text))
    #expect(limit.algorithm == algorithm && limit.requests == requests)
    #expect(limit.milliseconds == milliseconds && limit.burst == burst)
  }

  @Test(
    "is rejected if the text is malformed",
    arguments: [
      "", "bucket", "bucket:", "bucket:20", "bucket:20/", "bucket:20/1", "bucket:0/1s", "bucket:+2/1s", "bucket:2/0s",
      "bucket:20/1s,", "bucket:20/1s,burst=", "bucket:20/1s,burst=0", "bucket:20/1s,burst=1,burst=2",
      "fixed-window:20/1s,burst=2", "sliding-window:20/1s,burst=2", "window:20/1s", "fixed-window:1000001/1s",
      "sliding-window:100001/1s", "fixed-window:20/1s/1s", " bucket:20/1s", "bucket:20/-1s", "bucket:20:1s",
      "bucket:99999999999999999999/1s", "Bucket:20/1s",
    ])
  func refusing(text: String) {
    #expect(RequestLimit(text) == nil)
  }

  private func statuses(_ ground: Ground, _ count: Int) -> [Int] {
    (0..<count).map { _ in ground.respond("/v1/test").status }
  }

  @Test("with a fixed window admits its requests anywhere in a window and again in the next window")
  func fixedWindow() throws {
    let ground = try Ground { $0.limit = RequestLimit("fixed-window:2/1s") }
    ground.clock.advance(milliseconds: 900)
    #expect(statuses(ground, 3) == [200, 200, 429])
    ground.clock.advance(milliseconds: 99)
    #expect(statuses(ground, 1) == [429])
    ground.clock.advance(milliseconds: 1)
    #expect(statuses(ground, 3) == [200, 200, 429])
  }

  @Test("with a sliding window admits its requests in any interval of the window's length")
  func slidingWindow() throws {
    let ground = try Ground { $0.limit = RequestLimit("sliding-window:2/1s") }
    #expect(statuses(ground, 1) == [200])
    ground.clock.advance(milliseconds: 900)
    #expect(statuses(ground, 2) == [200, 429])
    ground.clock.advance(milliseconds: 99)
    #expect(statuses(ground, 1) == [429])
    ground.clock.advance(milliseconds: 1)
    #expect(statuses(ground, 2) == [200, 429])
    ground.clock.advance(milliseconds: 899)
    #expect(statuses(ground, 1) == [429])
    ground.clock.advance(milliseconds: 1)
    #expect(statuses(ground, 2) == [200, 429])
    for _ in 0..<100 {
      ground.clock.advance(milliseconds: 1000)
      #expect(statuses(ground, 3) == [200, 200, 429])
    }
  }

  @Test("with a token bucket refills evenly over the period")
  func bucket() throws {
    let ground = try Ground { $0.limit = RequestLimit("bucket:10/5s,burst=2") }
    #expect(statuses(ground, 3) == [200, 200, 429])
    ground.clock.advance(milliseconds: 499)
    #expect(statuses(ground, 1) == [429])
    ground.clock.advance(milliseconds: 1)
    #expect(statuses(ground, 2) == [200, 429])
    ground.clock.advance(milliseconds: 3_600_000_000)
    #expect(statuses(ground, 3) == [200, 200, 429])
  }

  @Test("sends Retry-After in seconds or as a date if the options say so")
  func retryAfter() throws {
    let ground = try Ground {
      $0.limit = RequestLimit("fixed-window:1/5s")
      $0.retryAfter = .seconds
    }
    ground.clock.advance(milliseconds: 2500)
    #expect(statuses(ground, 1) == [200])
    #expect(ground.respond("/v1/test").fields.single("retry-after") == "3")
    _ = ground.respond(
      "/sandbox/faults", "PUT", content: #"{"limit":"fixed-window:2/5s","retryAfter":"date","latency":"100ms"}"#)
    #expect(statuses(ground, 2) == [200, 200])
    let response = ground.respond("/v1/test")
    #expect(response.fields.single("retry-after") == HTTPDate.text(Ground.now + 3))
    #expect(response.delay == .milliseconds(100))
    #expect(try ground.json("/sandbox/faults").at("admitted") == .number("2"))
    #expect(try ground.json("/sandbox/faults").at("limited") == .number("1"))
  }

  @Test(
    "stays the same after an invalid order",
    arguments: [
      #"{"limit":"bucket:0/1s"}"#, #"{"limit":5}"#, #"{"latency":"1"}"#, #"{"latency":100}"#, #"{"retryAfter":"no"}"#,
      #"{"limit":"bucket:1/1s","rate":{"perSecond":1,"burst":1}}"#,
    ])
  func badOrder(content: String) throws {
    let ground = try Ground { $0.limit = RequestLimit("fixed-window:1/1s") }
    #expect(ground.respond("/sandbox/faults", "PUT", content: content).status == 400)
    #expect(statuses(ground, 2) == [200, 429])
  }
}
