import CLockedMemory
import COpenSSL
import Glibc
import Locks

/// The measures of the process that keep secrets in its own memory only.
public enum SecureMemory {
  /// Prepares locked memory for keys and forbids core dumps. Call it first, while there is only one thread: OpenSSL
  /// accepts memory functions only before its first allocation.
  ///
  /// Without privileges, the system may deny some of these measures. The server works without them, so each failure is
  /// a finding to log. Further calls change nothing and return the same findings.
  public static func protect() -> [Finding] { outcome }

  private static let outcome: [Finding] = [lockedRegion(), undumpable(), noCoreFiles()].compactMap { $0 }

  private static func lockedRegion() -> Finding? {
    let state = locked_memory_prepare()
    let isUsed = unsafe CRYPTO_set_mem_functions(
      locked_memory_openssl_malloc, locked_memory_openssl_realloc, locked_memory_openssl_free)
    if isUsed != 0 { locked_memory_openssl_is_counted() }
    // Nothing is cleaned up at exit: a thread may be signing still, and would then use memory that is free.
    OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
    if isUsed == 0 || state == locked_memory_absent {
      return Finding(
        id: "memory.no_secure_heap",
        description: "The process cannot allocate secure memory, so its keys are in ordinary memory.")
    }
    guard state != locked_memory_locked else { return nil }
    return Finding(
      id: "memory.not_locked",
      description: "The process cannot lock or fence the memory for keys, so the system may swap it out."
        + " A memlock limit of \(locked_memory_size() / 1024) KiB is enough.")
  }

  private static func undumpable() -> Finding? {
    guard shim_forbid_dumps() != 0 else { return nil }
    return Finding(
      id: "memory.dumpable",
      description: "The process cannot make itself undumpable: other processes of the same user may read its memory.")
  }

  private static func noCoreFiles() -> Finding? {
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) != 0 else { return nil }
    return Finding(id: "memory.core_files", description: "The process cannot set its limit for core files to zero.")
  }

  /// Runs `work`, which uses a private key. During `work`, OpenSSL allocates from the locked region. Its permanent
  /// caches must not take room there, so this function fills them before.
  package static func use<Result, Failure: Error>(_ work: () throws(Failure) -> Result) throws(Failure) -> Result {
    if locked_memory_is_new_thread() != 0 {
      OpenSSLCaches.fill()
      var byte: UInt8 = 0
      // Each thread has its own random number generator.
      unsafe RAND_priv_bytes(&byte, 1)
      ERR_clear_error()
    }
    return try watchingOverflow { () throws(Failure) in
      locked_memory_enter()
      defer { locked_memory_leave() }
      return try work()
    }
  }

  /// Sets the handler for a secret in ordinary memory because the region is full. It must be quick, as part of the work.
  public static func onOverflow(_ handler: @escaping @Sendable () -> Void) { overflowHandler.withLock { $0 = handler } }

  private static let overflowHandler = Locked<(@Sendable () -> Void)?>(nil)

  static func watchingOverflow<Result, Failure: Error>(_ work: () throws(Failure) -> Result) throws(Failure) -> Result {
    let before = locked_memory_overflows()
    defer { if locked_memory_overflows() != before { overflowHandler.withLock { $0 }?() } }
    return try work()
  }
}

/// A failed measure that does not stop the server: one line of the log.
public struct Finding: Sendable, Hashable, CustomStringConvertible {
  /// The stable identifier of the failure, in dotted lower case; it never changes for the same fact.
  public let id: String
  /// One sentence for the operator, without key material.
  public let description: String

  /// Creates a finding.
  public init(id: String, description: String) { (self.id, self.description) = (id, description) }
}

/// OpenSSL's caches, which last as long as the process: providers, algorithms, decoders, error strings.
enum OpenSSLCaches {
  /// Runs every operation of the MusicKit key once with a random key. The caches take 300 KB, which would leave no room
  /// for the key in locked memory. A failure here can be ignored: it recurs when the server uses the key.
  static func fill() { filled }

  private static let filled: Void = {
    defer { ERR_clear_error() }
    guard let random = unsafe copenssl_generate_p256() else { return }
    defer { unsafe EVP_PKEY_free(random) }
    guard let key = unsafe decoded(random) else { return }
    defer { unsafe EVP_PKEY_free(key) }
    unsafe sign(with: key)
  }()

  /// Returns the key after a round trip through PKCS #8 in DER.
  private static func decoded(_ key: OpaquePointer) -> OpaquePointer? {
    guard let info = unsafe EVP_PKEY2PKCS8(key) else { return nil }
    defer { unsafe PKCS8_PRIV_KEY_INFO_free(info) }
    var der: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_PKCS8_PRIV_KEY_INFO(info, &der)
    guard let der = unsafe der, count > 0 else { return nil }
    defer { unsafe CRYPTO_clear_free(der, Int(count), nil, 0) }
    var cursor = unsafe UnsafePointer<UInt8>?(der)
    guard let parsed = unsafe d2i_PKCS8_PRIV_KEY_INFO(nil, &cursor, Int(count)) else { return nil }
    defer { unsafe PKCS8_PRIV_KEY_INFO_free(parsed) }
    return unsafe EVP_PKCS82PKEY(parsed)
  }

  private static func sign(with key: OpaquePointer) {
    guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else { return }
    defer { unsafe EVP_PKEY_CTX_free(context) }
    guard unsafe EVP_PKEY_sign_init(context) == 1, unsafe EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) == 1
    else { return }
    let digest = [UInt8](repeating: 0, count: 32)
    var signature = [UInt8](repeating: 0, count: ECDSASignature.longestDER)
    var count = signature.count
    unsafe EVP_PKEY_sign(context, &signature, &count, digest, digest.count)
  }
}

/// A failure of OpenSSL that does not depend on the key: out of memory, or no random numbers.
public struct CryptographyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The OpenSSL function that failed. The error text of OpenSSL may quote its input, so it is left out.
  let function: String
  /// Whether the function failed because it had no memory.
  package let isOutOfMemory: Bool

  /// Records the last failure of `function` and clears the thread's error queue.
  public init(function: String) {
    self.function = function
    isOutOfMemory = locked_memory_take_failure() != 0
    ERR_clear_error()
  }

  /// Returns the failure of `function` if it ran out of memory; nil if it failed for any other reason.
  package static func outOfMemory(in function: String) -> CryptographyError? {
    let error = CryptographyError(function: function)
    return error.isOutOfMemory ? error : nil
  }

  /// One sentence that names the function.
  public var description: String {
    isOutOfMemory ? "OpenSSL ran out of memory in \(function)." : "OpenSSL's \(function) failed."
  }
}
