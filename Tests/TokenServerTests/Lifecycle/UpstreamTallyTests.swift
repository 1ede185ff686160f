import CatalogProxy
import HTTPMessages
import Testing

@testable import TokenServer

@Suite struct UpstreamTallyTests {
  private func text(_ tally: UpstreamTally) -> String {
    var text = MetricsText()
    text.add(UpstreamTally.readings, of: tally)
    return String(decoding: text.bytes, as: UTF8.self)
  }

  @Test("the tally reports every cause from the start")
  func empty() {
    let text = text(UpstreamTally())
    for cause in UpstreamTally.Cause.allCases {
      #expect(text.contains("musickit_upstream_errors_total{cause=\"\(cause.rawValue)\"} 0\n"))
    }
    #expect(text.contains("musickit_upstream_response_seconds_count 0\n"))
  }

  @Test(
    "the tally counts a failure by its cause",
    arguments: [
      (.dnsError, "dns"), (.dnsTimeout, "dns"), (.connectionRefused, "connect"), (.connectionTimeout, "connect"),
      (.tlsCertificateError, "tls"), (.connectionReadTimeout, "timeout"), (.responseTimeout, "timeout"),
      (.connectionTerminated, "broken"), (.protocolError, "protocol"), (.proxyInternalError, "other"),
    ] as [(UpstreamError.Cause, String)])
  func failure(_ cause: UpstreamError.Cause, _ label: String) {
    var tally = UpstreamTally()
    tally.count(.exchangeFailed(UpstreamError(cause, .unanswered, "x")))
    #expect(text(tally).contains("musickit_upstream_errors_total{cause=\"\(label)\"} 1\n"))
    #expect(text(tally).split(separator: "\n").filter { $0.hasSuffix(" 1") }.count == 1)
  }

  @Test("the tally counts 5xx responses and the time to the first byte")
  func responses() {
    var tally = UpstreamTally()
    tally.count(.upstreamStatus(503))
    tally.count(.responded(after: .milliseconds(20)))
    tally.count(.responded(after: .milliseconds(500)))
    let text = text(tally)
    #expect(text.contains("musickit_upstream_errors_total{cause=\"status\"} 1\n"))
    #expect(text.contains("musickit_upstream_response_seconds_bucket{le=\"0.025\"} 1\n"))
    #expect(text.contains("musickit_upstream_response_seconds_bucket{le=\"1.0\"} 2\n"))
    #expect(text.contains("musickit_upstream_response_seconds_sum 0.52\n"))
  }
}
