/// Why content ended before it was whole.
public enum ContentError: Error, Sendable, Equatable {
  /// The sender broke off, or broke the protocol; a sentence says how.
  case broken(String)
  /// It did not go on in time.
  case timedOut
  /// The reader was cancelled, or its task was.
  case cancelled
  /// It is longer than the reader takes, in bytes.
  case tooLarge(limit: Int)
}
