import Dispatch
import Testing

@testable import TokenServer

@Suite("The request metrics")
struct RequestMetricsTests {
  private static func lines(_ metrics: RequestMetrics) -> [Substring] {
    var text = MetricsText()
    text.add(RequestMetrics.readings, of: metrics.totals)
    return String(decoding: text.bytes, as: UTF8.self).split(separator: "\n")
  }

  @Test("sum up all loops and sort by route")
  func sums() {
    let metrics = RequestMetrics()
    let tallies = [metrics.makeTally(), metrics.makeTally()]
    for tally in tallies {
      tally.count(route: "/b", method: "GET", status: 200, bytes: 10, duration: .milliseconds(3))
      tally.count(route: "/b", method: "GET", status: 404, bytes: 5, duration: .milliseconds(3))
    }
    tallies[1].count(route: "/a", method: "POST", status: 200, bytes: 0, duration: .milliseconds(3))
    #expect(
      Self.lines(metrics).filter { $0.hasPrefix("musickit_http_requests_total") } == [
        #"musickit_http_requests_total{route="/a",method="POST",code="200"} 1"#,
        #"musickit_http_requests_total{route="/b",method="GET",code="200"} 2"#,
        #"musickit_http_requests_total{route="/b",method="GET",code="404"} 2"#,
      ])
    #expect(Self.lines(metrics).contains(#"musickit_http_response_bytes_total{route="/b"} 30"#))
  }

  @Test("count durations in buckets with inclusive upper bounds")
  func buckets() {
    let metrics = RequestMetrics()
    let tally = metrics.makeTally()
    for duration: Duration in [.zero, .milliseconds(1), .microseconds(1001), .seconds(30), .seconds(31)] {
      tally.count(route: "/a", method: "GET", status: 200, bytes: 0, duration: duration)
    }
    let lines = Self.lines(metrics).filter { $0.hasPrefix("musickit_http_request_duration_seconds") }
    let buckets = [
      ("0.001", 2), ("0.005", 3), ("0.025", 3), ("0.1", 3), ("0.25", 3), ("1.0", 3), ("5.0", 3), ("30.0", 4),
      ("+Inf", 5),
    ]
    let expected: [Substring] = buckets.map { bound, count in
      #"musickit_http_request_duration_seconds_bucket{route="/a",le="\#(bound)"} \#(count)"#
    }
    #expect(lines.dropLast(2) == expected[...])
    #expect(
      lines.suffix(2) == [
        #"musickit_http_request_duration_seconds_sum{route="/a"} 61.002001"#,
        #"musickit_http_request_duration_seconds_count{route="/a"} 5"#,
      ])
  }

  @Test("sum up the durations of each client, of at most 2,000 clients")
  func clients() {
    let metrics = RequestMetrics()
    let tallies = [metrics.makeTally(), metrics.makeTally()]
    func count(_ client: String?, _ duration: Duration, _ loop: Int) {
      tallies[loop].count(route: "/a", method: "GET", status: 200, bytes: 0, duration: duration, client: client)
    }
    for loop in [0, 1, 0] { count("web", .milliseconds(3), loop) }
    count("android", .seconds(2), 1)
    count(nil, .seconds(9), 0)
    let name = "musickit_client_request_duration_seconds"
    func samples(_ suffix: String) -> [Substring] {
      Self.lines(metrics).filter { $0.hasPrefix("\(name)_\(suffix)") }
    }
    #expect(samples("count") == [#"\#(name)_count{client="android"} 1"#, #"\#(name)_count{client="web"} 3"#])
    #expect(samples("sum").last == #"\#(name)_sum{client="web"} 0.009"#)
    #expect(samples("bucket").contains(#"\#(name)_bucket{client="web",le="0.001"} 0"#))
    #expect(samples("bucket").contains(#"\#(name)_bucket{client="web",le="0.005"} 3"#))
    for number in 0..<ClientTallies<DurationHistogram>.limit + 500 { count("\(number)", .milliseconds(1), number % 2) }
    #expect(samples("count").count == ClientTallies<DurationHistogram>.limit + 1)
    #expect(samples("count").contains(#"\#(name)_count{client="other"} 502"#))
  }

  @Test("lose no count during a scrape")
  func scrapes() {
    let metrics = RequestMetrics()
    DispatchQueue.concurrentPerform(iterations: 4) { index in
      let tally = metrics.makeTally()
      for _ in 0..<1000 {
        tally.count(route: "/a", method: "GET", status: 200, bytes: 1, duration: .milliseconds(1))
        if index == 0 { _ = Self.lines(metrics) }
      }
    }
    #expect(Self.lines(metrics).first { $0.contains("requests_total{") }?.hasSuffix(" 4000") == true)
  }
}
