public import Glibc

/// State that several threads share. Only `withLock` reaches it, so the compiler proves that each access holds the lock.
///
/// The mutex is a pthread mutex, because ThreadSanitizer understands pthreads but not `Synchronization.Mutex`.
@safe public final class Locked<State>: @unchecked Sendable {
  // Sendable: only `withLock` touches `state`, with the mutex held, and `sending` keeps every reference into the state out
  // of other regions. Safe: the mutex is on the heap because it must not move, and it lives from `init` to `deinit`.
  @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  // The mutex ensures exclusive access. A check at run time would cost as much as the lock.
  @exclusivity(unchecked) @usableFromInline var state: State

  /// Takes ownership of `state`; the lock is not held.
  @inlinable
  public init(_ state: consuming sending State) {
    unsafe self.state = state
    unsafe pthread_mutex_init(mutex, nil)
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  /// Runs `body` while no other thread is in `withLock` of this state. `body` must not call `withLock` of the same state.
  ///
  /// Inlinable, because requests take such locks: another module then calls `body` without generic code between.
  @inlinable
  public func withLock<Result, Failure: Error>(
    _ body: (inout sending State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return try unsafe body(&state)
  }
}

/// A mutex with a condition variable, for threads that wait for the work of another thread.
@safe package final class Monitor: @unchecked Sendable {
  // Safe and Sendable: pthread objects allow use by many threads. The condition is on the heap because it must not move.
  private let locked = Locked(())
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  package init() { unsafe pthread_cond_init(condition, nil) }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe condition.deallocate()
  }

  package func lock() { unsafe pthread_mutex_lock(locked.mutex) }
  package func unlock() { unsafe pthread_mutex_unlock(locked.mutex) }

  package func withLock<Result>(_ body: () -> Result) -> Result {
    lock()
    defer { unlock() }
    return body()
  }

  /// Releases the lock while it waits for `broadcast`. Wakeups can be spurious: check the condition again.
  package func wait() { unsafe pthread_cond_wait(condition, locked.mutex) }
  package func broadcast() { unsafe pthread_cond_broadcast(condition) }
}
