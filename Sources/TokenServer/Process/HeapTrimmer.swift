import Dispatch
import Locks
import Memory

/// Returns free memory to the system after a burst, on a thread of its own.
final class HeapTrimmer: @unchecked Sendable {
  // Sendable: `step` and `generation` are touched only under `lock`.
  private let lock = Mutex()
  /// Which of ``delays`` runs; nil while none does.
  private var step: Int?
  private var generation = 0
  private let queue = DispatchQueue(label: "heap", qos: .utility)

  /// Seconds before each trim, so that one walk through the heap serves a burst that ends in many steps: within the ten
  /// seconds in which memory is to be back, and once more when callers that waited for Apple have gone as well.
  private static let delays = [2, 6, 30]

  /// Trims the heap a little later, and again, once for any number of calls until then.
  func trimSoon() {
    lock.withLock {
      guard step != 0 else { return }
      schedule(0)
    }
  }

  /// Under `lock`.
  private func schedule(_ step: Int) {
    self.step = step
    generation += 1
    let generation = generation
    queue.asyncAfter(deadline: .now() + .seconds(Self.delays[step])) { self.trim(generation) }
  }

  private func trim(_ generation: Int) {
    guard lock.withLock({ generation == self.generation }) else { return }
    Heap.trim()
    lock.withLock {
      guard generation == self.generation, let step else { return }
      if step + 1 < Self.delays.count { schedule(step + 1) } else { self.step = nil }
    }
  }
}
