import COpenSSL
import Glibc

/// What the process does to keep secrets in its own memory and nowhere else.
public enum SecureMemory {
  /// Bytes of OpenSSL's secure heap. Keys and nonces of the size of P-256 need a few hundred bytes each, and 64 KiB
  /// is what `RLIMIT_MEMLOCK` grants an unprivileged process on older systems.
  static let heapSize = 65_536
  /// Smallest block of the secure heap, a power of two: a P-256 scalar.
  static let heapBlock = 32

  /// Sets up locked memory for keys and forbids core dumps; call it before anything else, while there is one thread.
  ///
  /// The secure heap (`CRYPTO_secure_malloc_init`) must stand before the first key is read, because memory that is
  /// already allocated does not move there. Without privileges some of this may be denied: the server works all the
  /// same, so what could not be had comes back as findings to log. Further calls change nothing and return the same.
  public static func protect() -> [Finding] { outcome }

  private static let outcome: [Finding] = [lockedHeap(), undumpable(), noCoreFiles()].compactMap { $0 }

  private static func lockedHeap() -> Finding? {
    guard CRYPTO_secure_malloc_initialized() == 0 else { return nil }
    switch CRYPTO_secure_malloc_init(heapSize, heapBlock) {
    case 1: return nil
    case 2:
      return Finding(
        id: "memory.not_locked",
        description: "The memory for keys could not be locked or fenced, so it may be swapped out;"
          + " a memlock limit of \(heapSize / 1024) KiB would do.")
    default:
      return Finding(
        id: "memory.no_secure_heap",
        description: "OpenSSL could not set up its secure heap, so keys are kept in ordinary memory.")
    }
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
}
