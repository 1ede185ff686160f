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
    overflowHandler.withLock { $0 = handler }
  }

  private static let overflowHandler = Locked<(@Sendable () -> Void)?>(nil)

  static func watchingOverflow<Result, Failure: Error>(
    _ work: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let before = locked_memory_overflows()
    defer {
      if locked_memory_overflows() != before { overflowHandler.withLock { $0 }?() }
    }
    return try work()
  }
}

/// Secret bytes: in locked memory as long as there is room, wiped when freed.
///
/// The class does not print, encode or mirror its contents, and cannot convert them to a `String`. A caller gets the
/// bytes for the length of a closure and must not copy them anywhere but into another `SecretBytes`.
@safe public final class SecretBytes: @unchecked Sendable {
  // Safe because the memory is valid from `init` to `deinit`. Sendable because nothing writes to the memory after
  // `init`, and it is freed by `deinit` alone.

  /// How many bytes there are.
  public let count: Int
  private let storage: UnsafeMutableRawPointer
  private let capacity: Int

  /// Makes room for `capacity` bytes and lets `body` append them.
  ///
  /// - Throws: whatever `body` throws; what it had written by then is wiped.
  public init<E: Error>(
    capacity: Int, initializingWith body: (inout OutputSpan<UInt8>) throws(E) -> Void
  ) throws(E) {
    // One byte at least, so that an empty secret is no special case.
    let capacity = max(capacity, 1)
    let storage = unsafe Self.allocate(capacity)
    let buffer = unsafe UnsafeMutableBufferPointer(
      start: storage.bindMemory(to: UInt8.self, capacity: capacity), count: capacity)
    var output = unsafe OutputSpan<UInt8>(buffer: buffer, initializedCount: 0)
    do {
      try body(&output)
    } catch {
      unsafe locked_memory_free(storage, capacity)
      throw error
    }
    unsafe self.count = output.finalize(for: buffer)
    self.capacity = capacity
    unsafe self.storage = storage
  }

  /// A copy of bytes that the caller owns and should wipe.
  public convenience init(copying bytes: Span<UInt8>) {
    self.init(capacity: bytes.count) { output in
      for index in bytes.indices { output.append(bytes[index]) }
    }
  }

  deinit {
    unsafe locked_memory_free(storage, capacity)
  }

  /// Lends the bytes to `body`.
  public func withBytes<Result, E: Error>(_ body: (Span<UInt8>) throws(E) -> Result) throws(E) -> Result {
    let start = unsafe UnsafePointer(storage.assumingMemoryBound(to: UInt8.self))
    return try unsafe body(Span(_unsafeStart: start, count: count))
  }

  /// Where locked memory is full, ordinary memory that is wiped when freed is better than no server, and the log says so.
  /// Without that either nothing can go on, as when Swift itself cannot allocate.
  private static func allocate(_ size: Int) -> UnsafeMutableRawPointer {
    let memory = unsafe SecureMemory.watchingOverflow { unsafe locked_memory_allocate(size) }
    guard let memory = unsafe memory else {
      preconditionFailure("out of memory")
    }
    return unsafe memory
  }
}

extension SecretBytes {
  /// Moves an environment variable into secret bytes: its value is wiped where the kernel shows it and then unset.
  ///
  /// Call it while there is one thread, as the environment has no lock. `nil` if there is no such variable.
  public static func take(environmentVariable name: String) -> SecretBytes? {
    guard let value = unsafe getenv(name) else { return nil }
    let count = unsafe strlen(value)
    let bytes = unsafe UnsafeRawBufferPointer(start: value, count: count)
    let secret = unsafe SecretBytes(copying: bytes.bindMemory(to: UInt8.self).span)
    unsafe OPENSSL_cleanse(value, count)
    unsafe unsetenv(name)
    return secret
  }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// Only that there is a secret, not even its length.
  public var description: String { "<secret>" }
  /// Only that there is a secret, not even its length.
  public var debugDescription: String { description }
  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
