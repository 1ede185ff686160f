import Dispatch
import Locks
import Testing

@testable import EventLoop

/// A list of events in order, added from any thread.
final class Notes<Note: Sendable>: Sendable {
  private let notes = Locked<[Note]>([])
  /// Signaled for each note.
  private let arrivals = DispatchSemaphore(value: 0)

  func add(_ note: Note) {
    notes.withLock { $0.append(note) }
    arrivals.signal()
  }

  /// Waits for `count` notes, in one thread at a time. Fewer within a minute fail the test.
  @discardableResult
  func wait(for count: Int) -> [Note] {
    let end = DispatchTime.now() + 60
    while true {
      let all = all
      if all.count >= count { return all }
      if arrivals.wait(timeout: end) == .timedOut {
        Issue.record("Only \(all.count) of \(count) notes came within 60 s.")
        return all
      }
    }
  }

  var all: [Note] { notes.withLock { $0 } }
}

/// A delegate that notes the readiness at each end of a wait.
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
