import TestSupport
import Testing

@testable import TokenServer
@testable import Tracing

@Suite("The queue of spans")
struct SpanQueueTests {
  /// A span whose identifier is `number`.
  private static func span(_ number: UInt64, text: Int = 0) throws -> FinishedSpan {
    let context = SpanContext(
      traceID: try #require(TraceID(high: 1, low: 1)), spanID: try #require(SpanID(number)), isSampled: true)
    var span = FinishedSpan(context, parent: context.spanID, .client, "GET", nil, end: 1, duration: .zero)
    span.add("musickit.client", text: String(repeating: "x", count: text))
    span.finish(hasFailed: false)
    return span
  }

  private static func numbers(_ queue: SpanQueue) -> [UInt64] {
    queue.take().compactMap { span in
      let text = String(decoding: span.json, as: UTF8.self)
      return text.firstRange(of: "\"spanId\":\"").flatMap { UInt64(text[$0.upperBound...].prefix(16), radix: 16) }
    }
  }

  @Test("hands out the oldest spans first, a batch at most")
  func order() throws {
    let queue = SpanQueue(capacity: 10, batch: 3)
    for number in 1...5 { queue.add(try Self.span(UInt64(number))) }
    #expect(Self.numbers(queue) == [1, 2, 3])
    queue.add(try Self.span(6))
    #expect(Self.numbers(queue) == [4, 5, 6])
    #expect(Self.numbers(queue) == [])
    for number in 7...10 { queue.add(try Self.span(UInt64(number))) }
    #expect(queue.take(isWhole: true).count == 3)
    #expect(queue.take(isWhole: true).isEmpty, "one is less than a batch")
    #expect(Self.numbers(queue) == [10])
    #expect(queue.dropped == 0)
  }

  @Test("drops and counts the newest spans beyond its capacity, until there is room")
  func capacity() throws {
    let queue = SpanQueue(capacity: 2, batch: 2)
    for number in 1...5 { queue.add(try Self.span(UInt64(number))) }
    #expect(queue.dropped == 3)
    #expect(Self.numbers(queue) == [1, 2])
    queue.add(try Self.span(6))
    #expect(Self.numbers(queue) == [6])
  }

  @Test("holds 4 MiB at most, whatever the spans contain")
  func bytes() throws {
    let queue = SpanQueue(capacity: 1000, batch: 1000)
    for number in 1...5 { queue.add(try Self.span(UInt64(number), text: 1_000_000)) }
    #expect(queue.dropped == 1)
    #expect(queue.take().count == 4)
    queue.add(try Self.span(6, text: 4_000_000))
    #expect(queue.dropped == 1, "what was taken makes room")
  }

  @Test("ends the exporter's wait when a batch is complete, and all waits at the end")
  func wake() async throws {
    let queue = SpanQueue(capacity: 10, batch: 2)
    func wait() -> Task<Void, Never> {
      Task { await waitForCancellation() }
    }
    let first = wait()
    queue.wake(first)
    queue.add(try Self.span(1))
    #expect(!first.isCancelled)
    queue.add(try Self.span(2))
    await first.value
    let second = wait()
    queue.wake(second)
    await second.value
    _ = queue.take()
    let third = wait()
    queue.wake(third)
    #expect(!third.isCancelled)
    queue.endWaits()
    await third.value
    let fourth = wait()
    queue.wake(fourth)
    await fourth.value
  }

  @Test(
    "the collector's refusals are read from its response, in any form of a number",
    arguments: [
      (#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#, 3),
      (#"{"partialSuccess":{"rejectedSpans":2}}"#, 2),
      ("{}", 0), ("", 0), (#"{"partialSuccess":{}}"#, 0), (#"{"partialSuccess":{"rejectedSpans":"-1"}}"#, 0),
      (#"{"partialSuccess":{"rejectedSpans":"many"}}"#, 0), ("<html>", 0), (#"{"partialSuccess":[1]}"#, 0),
    ])
  func rejected(_ content: String, _ expected: Int) {
    #expect(SpanBatch.rejected(Array(content.utf8)) == expected)
  }
}
