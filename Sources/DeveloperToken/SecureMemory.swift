import CLockedMemory
import COpenSSL
import Glibc
import Locks

/// What the process does to keep secrets in its own memory and nowhere else.
public enum SecureMemory {
  /// Sets up locked memory for keys and forbids core dumps; call it before anything else, while there is one thread.
  ///
  /// OpenSSL takes its memory functions only before it allocates for the first time. Without privileges some of this may
  /// be denied: the server works all the same, so what is missing comes back as findings to log. Further calls change
  /// nothing and return the same.
  public static func protect() -> [Finding] { outcome }

  private static let outcome: [Finding] = [lockedRegion(), undumpable(), noCoreFiles()].compactMap { $0 }

  private static func lockedRegion() -> Finding? {
    let state = locked_memory_prepare()
    let isUsed = unsafe CRYPTO_set_mem_functions(
      locked_memory_openssl_malloc, locked_memory_openssl_realloc, locked_memory_openssl_free)
    if isUsed == 0 || state == locked_memory_absent {
      return Finding(
        id: "memory.no_secure_heap",
        description: "The memory for keys could not be set apart, so keys are kept in ordinary memory.")
    }
    guard state != locked_memory_locked else { return nil }
    return Finding(
      id: "memory.not_locked",
      description: "The memory for keys could not be locked or fenced, so it may be swapped out;"
        + " a memlock limit of \(locked_memory_size() / 1024) KiB would do.")
  }

  private static func undumpable() -> Finding? {
    guard shim_forbid_dumps() != 0 else { return nil }
    return Finding(
      id: "memory.dumpable",
      description: "The process could not be made undumpable: others of the same user may read its memory.")
  }

  private static func noCoreFiles() -> Finding? {
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) != 0 else { return nil }
    return Finding(id: "memory.core_files", description: "The limit for core files could not be set to zero.")
  }

  // MARK: Use

  /// Runs `work`, which handles a private key: what OpenSSL allocates in it comes from the locked region.
  ///
  /// What OpenSSL makes once and keeps must not take room there, so it is made before.
  static func use<Result, Failure: Error>(_ work: () throws(Failure) -> Result) throws(Failure) -> Result {
    if locked_memory_is_new_thread() != 0 {
      OpenSSLCaches.fill()
      var byte: UInt8 = 0
      // Each thread has a random number generator of its own.
      unsafe RAND_priv_bytes(&byte, 1)
      ERR_clear_error()
    }
    return try watchingOverflow { () throws(Failure) in
      locked_memory_enter()
      defer { locked_memory_leave() }
      return try work()
    }
  }

  // MARK: Overflow

  /// Sets what is called when the region is full and a secret is in ordinary memory instead: on the thread at hand,
  /// once for each piece of work, so it must be quick.
  public static func onOverflow(_ handler: @escaping @Sendable () -> Void) {
    mutex.withLock { unsafe overflowHandler = handler }
  }

  private static let mutex = Mutex()
  // Touched only under `mutex`.
  nonisolated(unsafe) private static var overflowHandler: (@Sendable () -> Void)?

  static func watchingOverflow<Result, Failure: Error>(
    _ work: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let before = locked_memory_overflows()
    defer {
      if locked_memory_overflows() != before { mutex.withLock { unsafe overflowHandler }?() }
    }
    return try work()
  }
}
