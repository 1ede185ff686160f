import Testing

@testable import TokenServer
@testable import Tracing

@Suite("A document of spans")
struct SpanDocumentTests {
  private static let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

  private static func text(_ spans: [FinishedSpan]) -> String {
    String(decoding: SpanBatch.document(spans, resource: [("service.name", "a \"b\"")]), as: UTF8.self)
  }

  private static let head =
    #"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a \"b\""}}]},"#
    + #""scopeSpans":[{"scope":{"name":"musickit-token-server","version":"\#(Release.version)"},"spans":["#

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
    var server = FinishedSpan(
      trace.context(), parent: trace.parent?.spanID, .server, "GET", "/token", end: 2_000_000_000,
      duration: .milliseconds(500))
    server.add("a", "w")
    server.add("b", text: "t\n")
    server.add("c", 200)
    server.finish(hasFailed: true)
    var spans = SpanIDGenerator()
    let sent = SpanContext(traceID: try #require(TraceID(high: 0, low: 2)), spanID: spans.next(), isSampled: true)
    var client = FinishedSpan(sent, parent: trace.spanID, .client, "GET", nil, end: 5, duration: .seconds(1))
    client.finish(hasFailed: false)
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
