/// A listener could not be opened.
public struct ListenError: Error, Equatable, CustomStringConvertible {
  /// What was to be listened on.
  public let endpoint: Endpoint

  /// Why that failed, and how to fix it.
  public let reason: String

  /// One sentence.
  public var description: String { "Cannot listen on \(endpoint): \(reason)." }
}
