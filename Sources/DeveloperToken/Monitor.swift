import Glibc

/// A mutex with a condition. From pthreads, because ThreadSanitizer sees through those and not through
/// `Synchronization.Mutex`.
@safe final class Monitor: @unchecked Sendable {
  // Safe because the two live from `init` to `deinit`. Sendable because they are made for use by many threads; they are on the heap since neither may move.

  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  init() {
    unsafe pthread_mutex_init(mutex, nil)
    unsafe pthread_cond_init(condition, nil)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  func lock() { unsafe pthread_mutex_lock(mutex) }
  func unlock() { unsafe pthread_mutex_unlock(mutex) }
  /// Gives up the lock until `broadcast`, or for no reason at all: ask again.
  func wait() { unsafe pthread_cond_wait(condition, mutex) }
  func broadcast() { unsafe pthread_cond_broadcast(condition) }
}
