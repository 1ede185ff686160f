import EventLoop
import Locks

/// Lets each kind of message through once in a while, and counts the others.
final class Throttle: @unchecked Sendable {
  // Sendable: `kinds` is touched only under `lock`.
  private let lock = Mutex()
  private var kinds: [String: (quietUntil: Deadline, suppressed: Int)] = [:]

  private static let pause = Duration.seconds(10)

  /// How many of this kind were held back before this one; nil if this one is to be held back.
  func admit(_ kind: String) -> Int? {
    let now = Deadline.now
    return lock.withLock {
      if let entry = kinds[kind], now < entry.quietUntil {
        kinds[kind] = (entry.quietUntil, entry.suppressed + 1)
        return nil
      }
      defer { kinds[kind] = (now.advanced(by: Self.pause), 0) }
      return kinds[kind]?.suppressed ?? 0
    }
  }
}
