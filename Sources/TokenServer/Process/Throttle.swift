import EventLoop
import Locks

/// Lets each kind of message through once in a while, and counts the others.
final class Throttle: @unchecked Sendable {
  // Sendable: `kinds` is touched only under `lock`.
  private let lock = Mutex()
  private var kinds: [String: Entry] = [:]

  private struct Entry {
    var quietUntil: Deadline
    var suppressed = 0
    /// Whether a message has gone through whose end has not been told.
    var isOpen = true
  }

  private static let pause = Duration.seconds(10)

  /// How many of this kind were held back before this one; nil if this one is to be held back.
  func admit(_ kind: String) -> Int? {
    let now = Deadline.now
    return lock.withLock {
      if let entry = kinds[kind], now < entry.quietUntil {
        kinds[kind]?.suppressed = entry.suppressed + 1
        return nil
      }
      defer { kinds[kind] = Entry(quietUntil: now.advanced(by: Self.pause)) }
      return kinds[kind]?.suppressed ?? 0
    }
  }

  /// Whether to tell that what messages of this kind were about is over: so if one has gone through since the last time.
  /// So a state that flaps is told as often as its beginning is, and the last line is true.
  func end(_ kind: String) -> Bool {
    lock.withLock {
      defer { kinds[kind]?.isOpen = false }
      return kinds[kind]?.isOpen ?? false
    }
  }
}
