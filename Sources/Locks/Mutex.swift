import Glibc

/// A mutex of the system, for the few places that several threads meet at.
///
/// From pthreads, because ThreadSanitizer sees through those and not through `Synchronization.Mutex`.
@safe public final class Mutex: @unchecked Sendable {
  // Safe and Sendable: a pthread mutex is made for many threads; it is on the heap because it must not move, and lives
  // from `init` to `deinit`.
  let pointer = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

  /// An unlocked one.
  public init() {
    unsafe pthread_mutex_init(pointer, nil)
  }

  deinit {
    unsafe pthread_mutex_destroy(pointer)
    unsafe pointer.deallocate()
  }

  /// Runs `body` while no other thread is in a `withLock` of this mutex.
  public func withLock<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
    lock()
    defer { unlock() }
    return try body()
  }

  func lock() { unsafe pthread_mutex_lock(pointer) }
  func unlock() { unsafe pthread_mutex_unlock(pointer) }
}
