import Dispatch
import EventLoop
import HTTPClient
import HTTPMessages
import Locks
import Logging
package import ServerSettings
package import TLS
import Tracing

/// Sends finished spans to a collector by OTLP over HTTP, in batches, in one task of the first loop. Nothing waits for it:
/// spans that find the queue full are dropped and counted, and so are those that the collector does not take in time.
package final class SpanExporter: Sendable {
  let sampler: Sampler
  /// The trusted CAs for the collector, which a reload replaces; nil without TLS.
  let authorities: TLSClientContext?
  private let queue: SpanQueue
  private let settings: Settings.SpanExport
  private let client: UpstreamClient
  private let logger: Logger
  private let throttle: Throttle
  private let ended = DispatchSemaphore(value: 0)
  private let state = Locked(State())

  private struct State {
    var task: Task<Void, Never>?
    /// Whether the collector did not take the last batch.
    var isFailing = false
    var counts = SpanCounts()
  }

  /// The maximum time that `close` waits for the last spans: 1 s. A collector that hangs must not delay the process's end.
  private static let patience = DispatchTimeInterval.seconds(1)

  /// Throws if the URL of the proxy or the system's store of CAs is unusable.
  ///
  /// - Parameter authorities: The trusted CAs for the collector; nil for the system's.
  init(
    _ settings: Settings.SpanExport, authorities: TLSClientContext?, proxy: String?, loop: IOLoop, logger: Logger
  ) throws {
    (self.settings, self.logger, throttle, sampler) = (settings, logger, Throttle(logger), settings.sampler)
    queue = SpanQueue(capacity: settings.queueSize, batch: settings.batchSize)
    self.authorities =
      settings.endpoint.origin.isSecure
      ? try authorities ?? TLSClientContext(caSetting: settings.certificateSetting) : nil
    client = try Self.client(settings, authorities: self.authorities, proxy: proxy, loop: loop)
  }

  /// - Parameter authorities: Nil only without TLS.
  static func client(
    _ settings: Settings.SpanExport, authorities: TLSClientContext?, proxy: String?, loop: IOLoop
  ) throws -> UpstreamClient {
    let origin = settings.endpoint.origin
    // One request at a time needs no HTTP/2.
    var configuration = UpstreamClient.Configuration(
      origin.isSecure ? .https : .http, host: origin.hostToResolve, port: origin.port, tls: authorities,
      proxy: try proxy.map { try UpstreamProxy($0) })
    configuration.http2 = .never
    return UpstreamClient(configuration, loop: loop)
  }

  /// On any thread, without a wait.
  func record(_ span: FinishedSpan) { queue.add(span) }

  var counts: SpanCounts {
    var counts = state.withLock { $0.counts }
    counts.droppedByQueue = queue.dropped
    return counts
  }

  func start() {
    state.withLock { state in
      // An unstructured task does not inherit the preference, and without it would run on the global pool.
      state.task = Task(executorPreference: client.loop) {
        await self.run()
        self.client.close()
        self.ended.signal()
      }
    }
  }

  /// Sends the waiting spans once, and ends. It waits for at most one second. Do not call it on an event loop.
  func close() {
    queue.endWaits()
    guard let task = state.withLock({ $0.task }) else { return }
    guard ended.wait(timeout: .now() + Self.patience) == .timedOut else { return }
    task.cancel()
    // A cancelled request ends at once, unless its loop is stuck.
    _ = ended.wait(timeout: .now() + Self.patience)
  }

  private func run() async {
    while true {
      let isLast = queue.isEnding
      if !isLast { await wait(for: settings.scheduleDelay) }
      var spans = queue.take()
      while !spans.isEmpty {
        // Nothing is sent for the time that the collector wants. Meanwhile spans wait in the queue.
        if let pause = await export(spans) { await wait(for: pause, orBatch: false) }
        guard !Task.isCancelled else { return }
        // Spans that have come meanwhile wait for others, or each response would cause a request.
        spans = queue.take(isWhole: !isLast)
      }
      if isLast { return }
    }
  }

  /// Waits for this time, until `close`, or by default until there is a whole batch.
  private func wait(for time: Duration, orBatch: Bool = true) async {
    let wait = Task(executorPreference: client.loop) { [client] in _ = try? await client.pause(for: time) }
    queue.wake(wait, atBatch: orBatch)
    await wait.value
  }

  /// Sends the spans, and again while the collector cannot take them. Returns the pause that it wants if it never did.
  private func export(_ spans: [FinishedSpan]) async -> Duration? {
    let batch = SpanBatch(spans, settings)
    let end = Deadline.now.advanced(by: settings.timeout)
    var backOff = Self.leastBackOff
    while true {
      switch await batch.send(by: client, within: end.duration(since: .now)) {
      case .accepted(let rejected):
        succeed(spans.count, rejected: min(rejected, spans.count))
        return nil
      case .failed(let reason):
        fail(spans.count, reason)
        return nil
      case .failedForNow(let reason, let wanted):
        let pause = max(wanted ?? .zero, backOff * Double.random(in: 0.8...1.2))
        guard !queue.isEnding, !Task.isCancelled, pause < end.duration(since: .now),
          (try? await client.pause(for: pause)) != nil
        else {
          fail(spans.count, reason)
          return wanted
        }
        backOff = min(backOff * 2, Self.longestBackOff)
      }
    }
  }

  /// The first and the longest pause before a batch is sent again: from 500 ms, doubled up to 5 s.
  private static let leastBackOff = Duration.milliseconds(500)
  private static let longestBackOff = Duration.seconds(5)

  private func succeed(_ count: Int, rejected: Int) {
    let (isOver, dropped) = state.withLock { state in
      state.counts.exported += count - rejected
      state.counts.rejected += rejected
      defer { state.isFailing = false }
      return (state.isFailing, state.counts.failed)
    }
    if rejected > 0, let suppressed = throttle.admit("rejected") {
      logger.warning(
        "The collector of spans refused some of them as invalid.",
        metadata: ["spans.rejected": "\(rejected)", "suppressed": "\(suppressed)"])
    }
    if isOver {
      throttle.end("failed", "The collector takes the server's spans again.", ["spans.dropped": "\(dropped)"])
    }
  }

  private func fail(_ count: Int, _ reason: String) {
    let begins = state.withLock { state in
      state.counts.failed += count
      defer { state.isFailing = true }
      return !state.isFailing
    }
    guard begins else { return }
    throttle.log(
      "failed",
      """
      The server cannot export spans to \(settings.endpoint). \(reason) It drops them until the collector takes them \
      again.
      """)
  }
}

extension SpanExporter {
  /// Sends the collector one request without any span on a loop of its own, and blocks this thread until the response.
  /// Returns why the collector does not take spans, in a sentence. Throws without a loop, or if the proxy is unusable.
  ///
  /// - Parameter authorities: Nil only without TLS.
  package static func refusal(
    of settings: Settings.SpanExport, authorities: TLSClientContext?, proxy: String?, within time: Duration
  ) throws -> String? {
    let loop = try IOLoop.start(label: "doctor")
    defer { loop.stopAndWait() }
    let client = try client(settings, authorities: authorities, proxy: proxy, loop: loop)
    defer { client.close() }
    let batch = SpanBatch([], settings)
    let result = Locked<SpanBatch.Result?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    Task(executorPreference: loop) {
      let outcome = await batch.send(by: client, within: time)
      result.withLock { $0 = outcome }
      isDone.signal()
    }
    // The timeouts of the client bound this wait.
    isDone.wait()
    return switch result.withLock({ $0 }) {
    case .accepted, nil: nil
    case .failed(let reason), .failedForNow(let reason, _): reason
    }
  }
}

struct SpanCounts: Sendable, Equatable {
  var exported = 0
  var droppedByQueue = 0
  /// The spans of batches that the collector did not take.
  var failed = 0
  /// The spans that the collector refused, in batches that it took.
  var rejected = 0
}
