import Bytes
import CLockedMemory
import COpenSSL
import Glibc

/// Secret bytes in locked memory while there is room, wiped when freed. Nothing prints, encodes or mirrors them, or
/// makes a `String`. A caller reads them during a closure, and must copy them nowhere but into another `SecretBytes`.
@safe public final class SecretBytes: @unchecked Sendable {
  // Safe: the memory is valid from `init` to `deinit`, which alone frees it. Sendable: nothing writes after `init`.

  /// The number of bytes.
  public let count: Int
  private let storage: UnsafeMutableRawPointer
  private let capacity: Int

  /// Allocates `capacity` bytes and lets `body` append up to that many. If `body` throws, what it wrote is wiped.
  public init<E: Error>(capacity: Int, initializingWith body: (inout OutputSpan<UInt8>) throws(E) -> Void) throws(E) {
    // At least one byte, so that an empty secret is not a special case.
    let capacity = max(capacity, 1)
    // Ordinary memory when the locked is full, which the server logs. Without either, the process stops as Swift does.
    let memory = unsafe SecureMemory.watchingOverflow { unsafe locked_memory_allocate(capacity) }
    guard let storage = unsafe memory else { preconditionFailure("out of memory") }
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

  /// Copies bytes that the caller owns and should wipe.
  public convenience init(copying bytes: Span<UInt8>) { self.init(capacity: bytes.count) { $0.append(copying: bytes) } }

  deinit { unsafe locked_memory_free(storage, capacity) }

  /// Lends the bytes to `body`.
  public func withBytes<Result, E: Error>(_ body: (Span<UInt8>) throws(E) -> Result) throws(E) -> Result {
    let start = unsafe UnsafePointer(storage.assumingMemoryBound(to: UInt8.self))
    return try unsafe body(Span(_unsafeStart: start, count: count))
  }
}

extension SecretBytes {
  /// Moves an environment variable into secret bytes: wipes its value where the kernel shows it, then unsets it.
  /// Returns nil if it is not set. Call it while there is only one thread, because the environment has no lock.
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

extension SecretBytes: CustomStringConvertible, CustomReflectable {
  /// A constant text, which does not reveal even the length.
  public var description: String { "<secret>" }
  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
