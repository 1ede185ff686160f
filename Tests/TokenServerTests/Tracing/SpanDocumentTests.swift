import Testing

@testable import TokenServer
@testable import Tracing

@Suite("A document of spans")
struct SpanDocumentTests {
  private static let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

  private static func text(_ spans: [FinishedSpan]) -> String {
    var document = SpanDocument(resource: [("service.name", "a \"b\"")], scope: ("s", "1"))
    for span in spans { document.add(span) }
    return String(decoding: document.finish(), as: UTF8.self)
  }

  private static let head =
    #"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a \"b\""}}]},"#
    + #""scopeSpans":[{"scope":{"name":"s","version":"1"},"spans":["#

  @Test("is valid without spans")
  func empty() {
    #expect(Self.text([]) == Self.head + "]}]}]}")
  }

  @Test("has every property of a span, with hexadecimal identifiers and numbers as text")
  func spans() throws {
    let context = SpanContext(traceparent: Array(Self.parent.utf8).span)
    var parent = try #require(context)
    parent.state = TraceState(Array("a=\"1\"".utf8).span)
    var traces = TraceIDGenerator(high: 1, start: 0)
    let trace = RequestTrace(traces.next(), parent: parent, isParentTrusted: true)
    let server = FinishedSpan(
      context: trace.context(), parent: trace.parent?.spanID, kind: .server, method: "GET", route: "/token",
      end: 2_000_000_000, duration: .milliseconds(500), hasFailed: true,
      attributes: [("a", .word("w")), ("b", .text("t\n")), ("c", .number(200))])
    var spans = SpanIDGenerator()
    let sent = SpanContext(traceID: try #require(TraceID(high: 0, low: 2)), spanID: spans.next(), isSampled: true)
    let client = FinishedSpan(
      context: sent, parent: server.context.spanID, kind: .client, method: "GET", route: nil, end: 5,
      duration: .seconds(1), hasFailed: false, attributes: [])
    #expect(
      Self.text([server, client])
        == Self.head
        + #"{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"\#(trace.spanID)","#
        + #""parentSpanId":"b7ad6b7169203331","traceState":"a=\"1\"","flags":769,"name":"GET /token","kind":2,"#
        + #""startTimeUnixNano":"1500000000","endTimeUnixNano":"2000000000","attributes":["#
        + #"{"key":"a","value":{"stringValue":"w"}},{"key":"b","value":{"stringValue":"t\u000a"}},"#
        + #"{"key":"c","value":{"intValue":"200"}}],"status":{"code":2}},"#
        + #"{"traceId":"00000000000000000000000000000002","spanId":"\#(sent.spanID)","#
        + #""parentSpanId":"\#(trace.spanID)","flags":257,"name":"GET","kind":3,"#
        + #""startTimeUnixNano":"5","endTimeUnixNano":"5","attributes":[],"status":{}}]}]}]}"#)
  }
}
