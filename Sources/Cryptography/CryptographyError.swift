import CLockedMemory
import COpenSSL

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
