import Dispatch
import Locks
import Telemetry
import Testing

@testable import TokenServer

@Suite("The access metrics")
struct AccessTallyTests {
  private static func samples(_ tally: AccessTally) -> [Substring] {
    var text = MetricsText()
    text.add(AccessTally.readings, of: tally)
    return String(decoding: text.bytes, as: UTF8.self).split(separator: "\n").filter { !$0.hasPrefix("#") }
  }

  @Test("count decisions by client, outcome and reason")
  func decisions() {
    var tally = AccessTally()
    for _ in 0..<3 { tally.count(client: "web", .granted, reason: nil) }
    tally.count(client: "web", .refused, reason: "origin_not_allowed")
    tally.count(client: "-", .refused, reason: "invalid_credentials")
    tally.count(client: "web", .refused, reason: "not_permitted")
    tally.count(client: "web", .limited, reason: "rate_limited")
    tally.count(client: "anonymous", .granted, reason: nil)
    tally.count(client: "a \"b\" \\ c", .granted, reason: nil)
    #expect(
      Self.samples(tally) == [
        #"musickit_access_decisions_total{client="-",outcome="refused",reason="invalid_credentials"} 1"#,
        #"musickit_access_decisions_total{client="a \"b\" \\ c",outcome="granted",reason="-"} 1"#,
        #"musickit_access_decisions_total{client="anonymous",outcome="granted",reason="-"} 1"#,
        #"musickit_access_decisions_total{client="web",outcome="granted",reason="-"} 3"#,
        #"musickit_access_decisions_total{client="web",outcome="limited",reason="rate_limited"} 1"#,
        #"musickit_access_decisions_total{client="web",outcome="refused",reason="not_permitted"} 1"#,
        #"musickit_access_decisions_total{client="web",outcome="refused",reason="origin_not_allowed"} 1"#,
      ])
  }

  @Test("have a bounded number of clients and still count every decision")
  func bounded() {
    var tally = AccessTally()
    for number in 0..<ClientTallies<Int>.limit + 500 { tally.count(client: "\(number)", .granted, reason: nil) }
    tally.count(client: "0", .granted, reason: nil)
    let samples = Self.samples(tally)
    #expect(samples.count == ClientTallies<Int>.limit + 1)
    #expect(samples.contains(#"musickit_access_decisions_total{client="other",outcome="granted",reason="-"} 500"#))
    #expect(samples.contains(#"musickit_access_decisions_total{client="0",outcome="granted",reason="-"} 2"#))
  }

  @Test("lose no count during a scrape")
  func scrapes() {
    let tally = Locked(AccessTally())
    DispatchQueue.concurrentPerform(iterations: 4) { index in
      for _ in 0..<1000 {
        tally.withLock { $0.count(client: "web", .granted, reason: nil) }
        if index == 0 { _ = Self.samples(tally.withLock { $0 }) }
      }
    }
    #expect(Self.samples(tally.withLock { $0 }).first?.hasSuffix(" 4000") == true)
  }
}
