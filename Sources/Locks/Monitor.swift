import Glibc

/// A mutex with a condition, for threads that wait for what another one is doing.
@safe public final class Monitor: @unchecked Sendable {
  // Safe and Sendable for the reasons of `Mutex`.
  private let mutex = Mutex()
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  /// A monitor that is unlocked, with no thread waiting.
  public init() {
    unsafe pthread_cond_init(condition, nil)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe condition.deallocate()
  }

  /// Enters; only one thread is inside at a time.
  public func lock() { mutex.lock() }

  /// Leaves.
  public func unlock() { mutex.unlock() }

  /// Gives up the lock until `broadcast`, or for no reason at all: ask again.
  public func wait() { unsafe pthread_cond_wait(condition, mutex.pointer) }

  /// Wakes all who wait.
  public func broadcast() { unsafe pthread_cond_broadcast(condition) }
}
