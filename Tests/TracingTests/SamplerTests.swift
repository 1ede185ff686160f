import Testing

@testable import Tracing

@Suite("A sampler")
struct SamplerTests {
  /// The decision about requests whose parent is absent, sampled or not sampled, from a trusted proxy or a stranger.
  struct Case: Sendable {
    let root: Sampler.Root
    let isParentBased: Bool
    let begun: Bool
    let trusted: (sampled: Bool, unsampled: Bool)
    let strange: (sampled: Bool, unsampled: Bool)
  }

  static let cases = [
    Case(root: .always, isParentBased: true, begun: true, trusted: (true, false), strange: (true, false)),
    Case(root: .never, isParentBased: true, begun: false, trusted: (true, false), strange: (false, false)),
    Case(root: .ratio(0), isParentBased: true, begun: false, trusted: (true, false), strange: (false, false)),
    Case(root: .ratio(1), isParentBased: true, begun: true, trusted: (true, false), strange: (true, false)),
    Case(root: .always, isParentBased: false, begun: true, trusted: (true, true), strange: (true, true)),
    Case(root: .never, isParentBased: false, begun: false, trusted: (false, false), strange: (false, false)),
  ]

  private static func trace(isSampled: Bool, isTrusted: Bool) throws -> RequestTrace {
    var (traces, spans) = (TraceIDGenerator(), SpanIDGenerator())
    return RequestTrace(
      traces.next(), parent: SpanContext(traceID: traces.next(), spanID: spans.next(), isSampled: isSampled),
      isParentTrusted: isTrusted)
  }

  @Test("obeys its parent only as far as a stranger cannot cause work", arguments: cases)
  func decision(_ row: Case) throws {
    let sampler = Sampler(row.root, isParentBased: row.isParentBased)
    var traces = TraceIDGenerator()
    #expect(sampler.records(RequestTrace(traces.next())) == row.begun)
    for (isTrusted, expected) in [(true, row.trusted), (false, row.strange)] {
      #expect(sampler.records(try Self.trace(isSampled: true, isTrusted: isTrusted)) == expected.sampled)
      #expect(sampler.records(try Self.trace(isSampled: false, isTrusted: isTrusted)) == expected.unsampled)
    }
  }

  @Test("that does not exist leaves the flag to a trusted proxy, and not to a stranger")
  func unexported() throws {
    #expect(try Self.trace(isSampled: true, isTrusted: true).context().isSampled)
    #expect(try !Self.trace(isSampled: true, isTrusted: false).context().isSampled)
    #expect(try !Self.trace(isSampled: false, isTrusted: true).context().isSampled)
  }

  @Test("with a ratio records that part of all traces", arguments: [0.01, 0.25, 0.5, 0.9])
  func ratio(_ part: Double) {
    let sampler = Sampler(.ratio(part), isParentBased: true)
    var traces = TraceIDGenerator(high: 1, start: 2)
    let count = (0..<10_000).count { _ in sampler.records(RequestTrace(traces.next())) }
    #expect(abs(Double(count) / 10_000 - part) < 0.02)
  }

  @Test("with a ratio decides by the trace of a trusted proxy, and not by one that a stranger chose")
  func chosen() throws {
    let sampler = Sampler(.ratio(0.5), isParentBased: false)
    let low = try #require(TraceID(high: 1, low: 0))
    let high = try #require(TraceID(high: 1, low: .max))
    var spans = SpanIDGenerator()
    let parent = SpanContext(traceID: low, spanID: spans.next(), isSampled: true)
    #expect(sampler.records(RequestTrace(high, parent: parent, isParentTrusted: true)))
    #expect(!sampler.records(RequestTrace(high, parent: parent, isParentTrusted: false)))
  }
}
