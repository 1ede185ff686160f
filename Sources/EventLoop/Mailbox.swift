import Glibc
import Locks

/// What other threads have for an event loop: jobs and actions, in order, with a pipe that wakes it.
final class Mailbox: @unchecked Sendable {
  // Sendable: `letters`, `isAwake` and `isClosed` are touched only under `lock`. A pthread mutex, because ThreadSanitizer
  // does not see through `Synchronization.Mutex`.

  enum Letter {
    case job(UnownedJob)
    case action(@Sendable () -> Void)
  }

  private let lock = Mutex()
  private var letters: [Letter] = []
  private var isAwake = false
  private var isClosed = false
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

  /// False if the mailbox is closed.
  func post(_ letter: Letter) -> Bool {
    let (isTaken, mustWake) = lock.withLock {
      guard !isClosed else { return (false, false) }
      letters.append(letter)
      defer { isAwake = true }
      return (true, !isAwake)
    }
    if mustWake { wake() }
    return isTaken
  }

  private func wake() {
    var byte: UInt8 = 1
    // Cannot fail for want of room: there is at most one byte in the pipe.
    _ = unsafe write(writing.raw, &byte, 1)
  }

  /// Takes no more letters, and gives those that there are.
  func close() -> [Letter] {
    lock.withLock {
      isClosed = true
      defer { letters = [] }
      return letters
    }
  }

  func take() -> [Letter] {
    var byte: UInt8 = 0
    _ = unsafe read(reading.raw, &byte, 1)
    return lock.withLock {
      isAwake = false
      defer { letters = [] }
      return letters
    }
  }
}
