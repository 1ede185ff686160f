/// Why content ended before it was whole.
public enum ContentError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The sender broke off, or broke the protocol; a sentence says how.
  case broken(String)
  /// It did not go on in time.
  case timedOut
  /// The reader was cancelled, or its task was.
  case cancelled
  /// It is longer than the reader takes, in bytes.
  case tooLarge(limit: Int)

  /// One sentence.
  public var description: String {
    switch self {
    case .broken(let sentence): sentence
    case .timedOut: "It did not go on in time."
    case .cancelled: "The response is over."
    case .tooLarge(let limit): "It is longer than \(limit) bytes."
    }
  }
}
