import Glibc

/// A thread of the system, made directly: Dispatch waits for ever where the system grants none.
public final class Thread: @unchecked Sendable {
  // Sendable: `isJoined` is touched only by `join`, which one thread calls at most once, and by `deinit`.
  private let handle: pthread_t
  private var isJoined = false

  /// The system grants no further thread.
  public struct Refused: Error, Equatable {
    /// The error code of pthread_create(3): `EAGAIN` where a limit is reached.
    public let code: Int32
  }

  /// Runs `body` on a new thread, which ends with it.
  public init(_ body: @escaping @Sendable () -> Void) throws(Refused) {
    let work = unsafe Unmanaged.passRetained(Work(body))
    var handle = pthread_t()
    let code = unsafe pthread_create(
      &handle, nil,
      { argument in
        // Safe: it is what was retained above, and this thread is the only one that takes it.
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

  /// Waits until it has ended, with all that the system does at the end of a thread. Once, and from another thread.
  public func join() {
    isJoined = true
    pthread_join(handle, nil)
  }

  /// Whether the system grants so many further threads at once.
  public static func areAvailable(_ count: Int) -> Bool {
    let monitor = Monitor()
    let state = Held()
    var threads: [Thread] = []
    for _ in 0..<count {
      let thread = try? Thread {
        monitor.lock()
        while !state.isOver { monitor.wait() }
        monitor.unlock()
      }
      guard let thread else { break }
      threads.append(thread)
    }
    monitor.lock()
    state.isOver = true
    monitor.broadcast()
    monitor.unlock()
    for thread in threads { thread.join() }
    return threads.count == count
  }

  private final class Work {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }

  private final class Held: @unchecked Sendable {
    // Sendable: touched only inside the monitor.
    var isOver = false
  }
}
