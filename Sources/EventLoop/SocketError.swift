import Glibc

/// A system call on a socket failed: which one, and why.
public struct SocketError: Error, Equatable, CustomStringConvertible {
  /// Name of the call, as in its manual page.
  public let call: String

  /// The `errno` that it left.
  public let code: Int32

  /// Takes `errno` as the call that has just failed left it.
  public init(during call: String) {
    self.call = call
    self.code = errno
  }

  /// An error with a code known already.
  public init(call: String, code: Int32) {
    self.call = call
    self.code = code
  }

  /// `bind: Address already in use`.
  public var description: String {
    // strerror is thread-safe in glibc since 2.32, and never null.
    let text = unsafe String(cString: strerror(code))
    return "\(call): \(text)"
  }
}
