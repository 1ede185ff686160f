import CLockedMemory
import COpenSSL
import Glibc

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
