import Glibc

/// A mutex with a condition, for threads that wait for what another one is doing.
@safe public final class Monitor: @unchecked Sendable {
  // Safe and Sendable: pthreads are made for many threads; both are on the heap because they must not move, and live from
  // `init` to `deinit`.
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  /// A monitor that is unlocked, with no thread waiting.
  public init() {
    unsafe pthread_mutex_init(mutex, nil)
    unsafe pthread_cond_init(condition, nil)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe condition.deallocate()
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  /// Enters; only one thread is inside at a time.
  public func lock() { unsafe pthread_mutex_lock(mutex) }

  /// Leaves.
  public func unlock() { unsafe pthread_mutex_unlock(mutex) }

  /// Gives up the lock until `broadcast`, or for no reason at all: ask again.
  public func wait() { unsafe pthread_cond_wait(condition, mutex) }

  /// Wakes all who wait.
  public func broadcast() { unsafe pthread_cond_broadcast(condition) }
}
