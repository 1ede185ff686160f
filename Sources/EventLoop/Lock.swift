import Glibc

/// A mutex of the system, for the few places that several threads meet at.
@safe public final class Lock: @unchecked Sendable {
  // Safe and Sendable: a pthread mutex is made for that. At a stable address, because POSIX forbids to move one.
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>

  /// An unlocked one.
  public init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    unsafe pthread_mutex_init(mutex, nil)
  }

  /// Runs `body` while no other thread is in a `withLock` of this lock.
  public func withLock<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return try body()
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }
}
