import Locks

@testable import EventLoop

/// What happened, in order, from any thread.
final class Notes<Note: Sendable>: @unchecked Sendable {
  // Sendable: `notes` is touched only inside `monitor`.
  private let monitor = Monitor()
  private var notes: [Note] = []

  func add(_ note: Note) {
    monitor.lock()
    notes.append(note)
    monitor.broadcast()
    monitor.unlock()
  }

  /// Waits for so many.
  @discardableResult
  func wait(for count: Int) -> [Note] {
    monitor.lock()
    defer { monitor.unlock() }
    while notes.count < count { monitor.wait() }
    return notes
  }

  var all: [Note] { wait(for: 0) }
}

/// Notes each end of a wait under a name.
final class Listening: ChannelDelegate, @unchecked Sendable {
  // Sendable: immutable.
  let notes = Notes<Readiness>()
  private let then: (@Sendable (Channel) -> Void)?

  init(_ then: (@Sendable (Channel) -> Void)? = nil) { self.then = then }

  func channel(_ channel: Channel, became readiness: Readiness) {
    then?(channel)
    notes.add(readiness)
  }
}
