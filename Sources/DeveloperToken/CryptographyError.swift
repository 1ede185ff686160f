/// OpenSSL could not do what it does for every sound key: out of memory, or no random numbers.
public struct CryptographyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The OpenSSL function that failed. Its own error text may quote its input, so it is left out.
  let function: String

  /// The failure of that function. The caller clears OpenSSL's queue of errors.
  public init(function: String) { self.function = function }

  /// One sentence that names the function.
  public var description: String { "OpenSSL's \(function) failed." }
}
