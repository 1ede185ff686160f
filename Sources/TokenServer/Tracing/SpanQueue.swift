import DequeModule
import Locks

/// The finished spans of all loops that wait for the exporter. A span costs its loop a short critical section; beyond the
/// bounds it is dropped and counted, so no request ever waits for the collector.
final class SpanQueue: Sendable {
  private let capacity: Int
  private let batch: Int
  private let state = Locked(State())

  private struct State {
    var spans: Deque<FinishedSpan> = []
    var bytes = 0
    var dropped = 0
    var wait: Task<Void, Never>?
    var endsAtBatch = false
    /// Whether the exporter waits no more, because the process ends.
    var isEnding = false
  }

  /// The maximum memory of all waiting spans: 4 MiB. The usual 2048 spans take a third; `tracestate` makes them larger.
  static let maximumBytes = 4 << 20

  /// A waiting exporter wakes when there are `batch` spans.
  init(capacity: Int, batch: Int) { (self.capacity, self.batch) = (capacity, batch) }

  func add(_ span: FinishedSpan) {
    let bytes = span.json.count
    let wait = state.withLock { state -> Task<Void, Never>? in
      guard state.spans.count < capacity, state.bytes + bytes <= Self.maximumBytes else {
        state.dropped += 1
        return nil
      }
      state.spans.append(span)
      state.bytes += bytes
      return state.endsAtBatch && state.spans.count >= batch ? state.wait.take() : nil
    }
    wait?.cancel()
  }

  /// Removes and returns the oldest spans, at most one batch.
  ///
  /// - Parameter isWhole: Whether to return none if they are less than a batch.
  func take(isWhole: Bool = false) -> [FinishedSpan] {
    state.withLock { state in
      guard !isWhole || state.spans.count >= batch else { return [] }
      let taken = Array(state.spans.prefix(batch))
      state.spans.removeFirst(taken.count)
      state.bytes -= taken.reduce(0) { $0 + $1.json.count }
      return taken
    }
  }

  /// Cancels `wait` when all waits end, and by default once there is a whole batch. Either may be so already.
  func wake(_ wait: Task<Void, Never>, atBatch: Bool = true) {
    let isOver = state.withLock { state in
      guard !(atBatch && state.spans.count >= batch), !state.isEnding else { return true }
      (state.wait, state.endsAtBatch) = (wait, atBatch)
      return false
    }
    if isOver { wait.cancel() }
  }

  /// Cancels the present wait and all later ones.
  func endWaits() {
    let wait = state.withLock { state in
      state.isEnding = true
      return state.wait.take()
    }
    wait?.cancel()
  }

  var isEnding: Bool { state.withLock { $0.isEnding } }
  var dropped: Int { state.withLock { $0.dropped } }
}
