import EventLoop
import Locks

/// Admits one message of each kind in ten seconds, and counts the suppressed ones.
final class Throttle: Sendable {
  private let kinds = Locked<[String: Entry]>([:])

  private struct Entry {
    var quietUntil: Deadline
    var suppressed = 0
    /// Whether a message was admitted, and its end has not been logged.
    var isOpen = true
  }

  private static let pause = Duration.seconds(10)

  /// Returns the number of suppressed messages of this kind before this one; nil if this one is suppressed too.
  func admit(_ kind: String) -> Int? {
    let now = Deadline.now
    return kinds.withLock { kinds in
      if let entry = kinds[kind], now < entry.quietUntil {
        kinds[kind]?.suppressed = entry.suppressed + 1
        return nil
      }
      defer { kinds[kind] = Entry(quietUntil: now.advanced(by: Self.pause)) }
      return kinds[kind]?.suppressed ?? 0
    }
  }

  /// Returns whether to log the end of a state: only if a message about it was admitted since the last end. So the log
  /// has as many ends as beginnings of a flapping state, and its last line is true.
  func end(_ kind: String) -> Bool {
    kinds.withLock { kinds in
      defer { kinds[kind]?.isOpen = false }
      return kinds[kind]?.isOpen ?? false
    }
  }
}
