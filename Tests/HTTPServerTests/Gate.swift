import Dispatch
import Locks
import Testing

/// Threads wait at a gate until a test opens it.
final class Gate: Sendable {
  private let isOpen = Locked(false)
  private let opening = DispatchGroup()

  init() { opening.enter() }

  func open() {
    let isFirst = isOpen.withLock { isOpen in
      defer { isOpen = true }
      return !isOpen
    }
    if isFirst { opening.leave() }
  }

  /// Waits until the gate is open. A gate that stays shut for a minute fails the test.
  func wait() {
    if opening.wait(timeout: .now() + 60) == .timedOut { Issue.record("The gate was still shut after 60 s.") }
  }
}
