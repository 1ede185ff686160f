import Testing

@testable import Tracing

@Suite("An identifier of a request or a span")
struct TraceIDTests {
  @Test("is unique and consists of hexadecimal digits")
  func generator() {
    var generator = TraceIDGenerator()
    let traces = (0..<10_000).map { _ in generator.next() }
    #expect(Set(traces).count == traces.count)
    #expect(Set(traces.map(\.description)).count == traces.count)
    #expect(traces.allSatisfy { $0.description.wholeMatch(of: /[0-9a-f]{32}/) != nil })
    var other = TraceIDGenerator()
    #expect(!traces.contains(other.next()))
    let spans = traces.map { SpanID(ofRequest: $0) }
    #expect(Set(spans).count == traces.count)
    #expect(spans.allSatisfy { $0.description.wholeMatch(of: /[0-9a-f]{16}/) != nil })
    #expect(!zip(traces, spans).contains { $0.description.hasSuffix($1.description) })
    var children = SpanIDGenerator()
    #expect(Set((0..<10_000).map { _ in children.next() }).count == 10_000)
  }

  @Test("of a request consists of the generator's high half and a SplitMix64 output")
  func vector() {
    // The first output of the SplitMix64 reference implementation for the seed 0.
    var generator = TraceIDGenerator(high: 0x0123_4567_89AB_CDEF, start: 0)
    #expect(generator.next().description == "0123456789abcdefe220a8397b1dcdaf")
  }
}
