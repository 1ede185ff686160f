import Testing

@testable import Tracing

@Suite("A trace context")
struct SpanContextTests {
  private static let trace = "0af7651916cd43dd8448eb211c80319c"
  private static let span = "b7ad6b7169203331"
  private static let zeros = String(repeating: "0", count: 32)

  private static func parse(_ text: String) -> SpanContext? {
    SpanContext(traceparent: Array(text.utf8).span)
  }

  @Test(
    "is read from a valid traceparent",
    arguments: [
      ("00-\(trace)-\(span)-01", true), ("00-\(trace)-\(span)-00", false),
      // Other flags are ignored.
      ("00-\(trace)-\(span)-03", true), ("00-\(trace)-\(span)-fe", false),
      // A later version may have more fields.
      ("01-\(trace)-\(span)-01", true), ("cc-\(trace)-\(span)-01-what-the-future-will-be-like", true),
      ("fe-\(trace)-\(span)-01-", true),
    ])
  func valid(_ text: String, _ isSampled: Bool) throws {
    let context = try #require(Self.parse(text))
    #expect(context.traceID.description == Self.trace)
    #expect(context.spanID.description == Self.span)
    #expect(context.isSampled == isSampled)
    let sent = InlineArray<55, UInt8> { (sent: inout OutputSpan<UInt8>) in context.appendTraceparent(to: &sent) }
    #expect(
      String(copying: try UTF8Span(validating: sent.span))
        == "00-\(Self.trace)-\(Self.span)-\(isSampled ? "01" : "00")"
    )
  }

  @Test(
    "is not read from a malformed traceparent",
    arguments: [
      "", "00", "00-\(trace)-\(span)", "00-\(trace)-\(span)-", "00-\(trace)-\(span)-0", "00-\(trace)-\(span)-1",
      "00-\(trace)-\(span)-01-", "00-\(trace)-\(span)-01-more", "00-\(trace)-\(span)-011", "00-\(trace)-\(span)-01 ",
      "01-\(trace)-\(span)-01.more", "01-\(trace)-\(span)-011", "ff-\(trace)-\(span)-01", "0-\(trace)-\(span)-01",
      "0x-\(trace)-\(span)-01", "FE-\(trace)-\(span)-01", "00-\(zeros)-\(span)-01",
      "00-\(trace)-\(zeros.prefix(16))-01", "00-\(trace.uppercased())-\(span)-01",
      "00-\(trace)-\(span.uppercased())-01",
      "00-\(trace)-\(span)-0A", "00-\(trace)-\(span)-0g", "00_\(trace)-\(span)-01", "00-\(trace)_\(span)-01",
      "00-\(trace)-\(span)_01", "00-\(trace.dropLast())g-\(span)-01", "00-\(trace)-\(span.dropLast())/-01",
      "00-\(trace.dropLast())-\(span)-01x", " 00-\(trace)-\(span)-01", "00-\(trace)-\(span)-01,00-\(trace)-\(span)-01",
    ])
  func malformed(_ text: String) {
    #expect(Self.parse(text) == nil)
  }

  @Test("is not read from any prefix of a valid traceparent")
  func prefixes() {
    let whole = "00-\(Self.trace)-\(Self.span)-01"
    for length in 0..<whole.utf8.count { #expect(Self.parse(String(whole.prefix(length))) == nil) }
  }

  @Test("of a child has the same trace, flag and state, and another span")
  func child() throws {
    var parent = try #require(Self.parse("00-\(Self.trace)-\(Self.span)-01"))
    parent.state = TraceState(Array("a=1".utf8).span)
    var generator = SpanIDGenerator()
    let child = parent.child(generator.next())
    #expect(child.traceID == parent.traceID && child.isSampled && child.state == parent.state)
    #expect(child.spanID != parent.spanID)
  }
}

@Suite("A trace state")
struct TraceStateTests {
  private static func read(_ lines: [String]) -> String? {
    var reader = TraceState.Reader()
    for line in lines { reader.add(Array(line.utf8).span) }
    return reader.state?.description
  }

  @Test(
    "is passed on without white space and empty members",
    arguments: [
      (["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
      (["a=1", "b=2"], "a=1,b=2"), ([" a=1 ,\t b=x y , ,"], "a=1,b=x y"), (["", "a=1"], "a=1"),
      (["fw529a3039@dt=FfD6fhjV", "1-_*/=~!"], "fw529a3039@dt=FfD6fhjV,1-_*/=~!"),
    ])
  func valid(_ lines: [String], _ expected: String) {
    #expect(Self.read(lines) == expected)
  }

  @Test(
    "is ignored if it is malformed",
    arguments: [
      [], [""], [","], ["a"], ["=1"], ["a="], ["a=1=2"], ["A=1"], ["-a=1"], ["a b=1"], ["a=1,a=2"], ["a=1", "a=1"],
      ["a=é"], ["a=\u{7F}"], ["a=1\u{0}"], ["a=1;b" + "=2"], ["é=1"],
    ])
  func malformed(_ lines: [String]) {
    #expect(Self.read(lines) == nil)
  }

  @Test("has at most 512 bytes in all lines, 32 members, and 256 bytes in a key and in a value")
  func limits() {
    let value = String(repeating: "v", count: 256)
    #expect(Self.read(["a=\(value)"]) != nil)
    #expect(Self.read(["a=\(value)v"]) == nil)
    #expect(Self.read(["\(value)=1"]) != nil)
    #expect(Self.read(["\(value)v=1"]) == nil)
    #expect(Self.read(["a=\(value)", "b=\(value.dropLast(7))"])?.utf8.count == 510)
    #expect(Self.read(["a=\(value)", "b=\(value.dropLast(5))"])?.utf8.count == 512)
    #expect(Self.read(["a=\(value)", "b=\(value.dropLast(4))"]) == nil)
    let members = (0..<33).map { "k\($0)=1" }
    #expect(Self.read([members.dropLast().joined(separator: ",")]) != nil)
    #expect(Self.read([members.joined(separator: ",")]) == nil)
  }
}
