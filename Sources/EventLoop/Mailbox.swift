import Glibc
import Locks

/// A queue of jobs and actions from other threads for an event loop, in order, with a pipe that wakes the loop.
final class Mailbox: Sendable {
  enum Letter: Sendable {
    case job(UnownedJob)
    case action(@Sendable () -> Void)
  }

  private struct State {
    var letters: [Letter] = []
    var isAwake = false
    var isClosed = false

    mutating func takeLetters() -> [Letter] {
      defer { letters = [] }
      return letters
    }
  }

  private let state = Locked(State())
  private let reading: Descriptor
  private let writing: Descriptor

  init() throws(SocketError) {
    var ends: [Int32] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else { throw SocketError(during: "pipe") }
    reading = Descriptor(owning: ends[0])
    writing = Descriptor(owning: ends[1])
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
  }

  var readEnd: Int32 { reading.raw }
  /// Always ready for writing, because the pipe contains at most one byte.
  var writeEnd: Int32 { writing.raw }

  /// Adds a letter. Returns false if the mailbox is closed.
  func post(_ letter: Letter) -> Bool {
    let (isTaken, mustWake) = state.withLock { state in
      guard !state.isClosed else { return (false, false) }
      state.letters.append(letter)
      defer { state.isAwake = true }
      return (true, !state.isAwake)
    }
    var byte: UInt8 = 1
    if mustWake { _ = unsafe write(writing.raw, &byte, 1) }
    return isTaken
  }

  func close() -> [Letter] {
    state.withLock { state in
      state.isClosed = true
      return state.takeLetters()
    }
  }

  func take() -> [Letter] {
    var byte: UInt8 = 0
    _ = unsafe read(reading.raw, &byte, 1)
    return state.withLock { state in
      state.isAwake = false
      return state.takeLetters()
    }
  }
}
