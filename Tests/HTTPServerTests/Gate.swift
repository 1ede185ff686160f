import Locks

/// Shut until somebody opens it; threads wait at it.
final class Gate: Sendable {
  private let monitor = Monitor()
  private let state = State()

  private final class State: @unchecked Sendable {
    // Sendable: touched only inside `monitor`.
    var isOpen = false
  }

  func open() {
    monitor.lock()
    state.isOpen = true
    monitor.broadcast()
    monitor.unlock()
  }

  func wait() {
    monitor.lock()
    while !state.isOpen { monitor.wait() }
    monitor.unlock()
  }
}
