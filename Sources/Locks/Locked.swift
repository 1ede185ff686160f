public import Glibc

/// State that several threads share: only `withLock` reaches it, so the compiler proves that each access holds the lock.
///
/// The mutex is from pthreads, because ThreadSanitizer sees through those and not through `Synchronization.Mutex`.
@safe public final class Locked<State>: @unchecked Sendable {
  // Sendable: `state` is touched only by `withLock` with the mutex held, and `sending` keeps every reference into it
  // out of other regions. Safe: the mutex is on the heap because it must not move, and it lives from `init` to `deinit`.
  @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  @usableFromInline var state: State

  /// Takes over `state`, unlocked.
  @inlinable
  public init(_ state: consuming sending State) {
    self.state = state
    unsafe pthread_mutex_init(mutex, nil)
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  /// Runs `body` while no other thread is in a `withLock` of this state. `body` must not call `withLock` of it again.
  ///
  /// Inlinable, because requests take such locks: another module calls `body` directly, without generic code between.
  @inlinable
  public func withLock<Result, Failure: Error>(
    _ body: (inout sending State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return try body(&state)
  }
}
