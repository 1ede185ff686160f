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
  package static func use<Result, Failure: Error>(_ work: () throws(Failure) -> Result) throws(Failure) -> Result {
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

/// Something that is not as it should be and does not stop the server: a line for the log.
public struct Finding: Sendable, Hashable, CustomStringConvertible {
  /// What the finding is about, in dotted lower case; never changes for the same fact.
  public let id: String
  /// One sentence for the operator. Never key material.
  public let description: String

  /// A finding with its stable id and its sentence.
  public init(id: String, description: String) {
    self.id = id
    self.description = description
  }
}

/// What OpenSSL makes at first use and keeps for the life of the process: providers, algorithms, decoders, error strings.
enum OpenSSLCaches {
  /// Has OpenSSL do once with a random key what it does later with the MusicKit key.
  ///
  /// Its caches take 300 KB: made in locked memory, they would leave no room for the key. A failure here shows again
  /// where it matters.
  static func fill() { filled }

  private static let filled: Void = {
    defer { ERR_clear_error() }
    guard let random = unsafe copenssl_generate_p256() else { return }
    defer { unsafe EVP_PKEY_free(random) }
    guard let key = unsafe decoded(random) else { return }
    defer { unsafe EVP_PKEY_free(key) }
    unsafe sign(with: key)
  }()

  /// The key after a round trip through PKCS #8 in DER.
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

/// OpenSSL could not do what it does for every sound key: out of memory, or no random numbers.
public struct CryptographyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The OpenSSL function that failed. Its own error text may quote its input, so it is left out.
  let function: String
  /// Whether it failed for want of memory.
  package let isOutOfMemory: Bool

  /// The failure of that function just now. Empties the thread's queue of errors.
  public init(function: String) {
    self.function = function
    isOutOfMemory = locked_memory_take_failure() != 0
    ERR_clear_error()
  }

  /// The failure of that function if there was no memory for it; nil if it failed for any other reason.
  package static func outOfMemory(in function: String) -> CryptographyError? {
    let error = CryptographyError(function: function)
    return error.isOutOfMemory ? error : nil
  }

  /// One sentence that names the function.
  public var description: String {
    isOutOfMemory ? "OpenSSL ran out of memory in \(function)." : "OpenSSL's \(function) failed."
  }
}
