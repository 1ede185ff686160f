import Glibc

/// A POSIX mutex. `Synchronization.Mutex` is built on futexes, which ThreadSanitizer does not see.
@safe final class Mutex: @unchecked Sendable {
  // Sendable because a mutex is made to be used from any thread. Safe because the pointer to it never changes, is valid
  // from init to deinit, and does not leave this class.
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>

  init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    unsafe pthread_mutex_init(mutex, nil)
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  /// Runs `body` while no other thread runs one under this mutex.
  func withLock<Result>(_ body: () throws -> Result) rethrows -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return try body()
  }
}
