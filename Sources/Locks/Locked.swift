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
