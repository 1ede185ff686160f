import Glibc

/// A system thread, created directly, because Dispatch waits forever if the system refuses a thread.
public final class Thread: @unchecked Sendable {
  // Sendable: only `join` and `deinit` touch `isJoined`, and one thread calls `join` at most once.
  private let handle: pthread_t
  private var isJoined = false

  /// The error when the system refuses a further thread.
  public struct Refused: Error, Equatable {
    /// The error code of pthread_create(3): `EAGAIN` if a limit is reached.
    public let code: Int32
  }

  /// Runs `body` on a new thread, which ends when `body` returns.
  public init(_ body: @escaping @Sendable () -> Void) throws(Refused) {
    let work = unsafe Unmanaged.passRetained(Work(body))
    var handle = pthread_t()
    let code = unsafe pthread_create(
      &handle, nil,
      { argument in
        // Safe: the argument is the object that was retained above, and only this thread takes it.
        if let argument = unsafe argument { unsafe Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().body() }
        return nil
      }, work.toOpaque())
    guard code == 0 else {
      unsafe work.release()
      throw Refused(code: code)
    }
    self.handle = handle
  }

  deinit { if !isJoined { pthread_detach(handle) } }

  /// Waits until the thread has ended, including the system's own cleanup. Call it once at most, on another thread.
  public func join() {
    isJoined = true
    pthread_join(handle, nil)
  }

  /// Returns whether the system grants `count` further threads at once.
  public static func areAvailable(_ count: Int) -> Bool {
    // All threads wait for this lock, until the last one exists.
    let monitor = Monitor()
    var threads: [Thread] = []
    monitor.lock()
    while threads.count < count, let thread = try? Thread({ monitor.withLock {} }) { threads.append(thread) }
    monitor.unlock()
    for thread in threads { thread.join() }
    return threads.count == count
  }

  private final class Work {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
}
