/// Content of a message that arrives in parts (RFC 9110 §6.4): of a request that the server receives, or of an
/// upstream's response. The reader sets the pace: the transport receives at most its own window ahead of the reader.
///
/// Confined to the event loop that it belongs to, and read by one task at a time.
public protocol ContentReader: AnyObject, Sendable {
  /// The next part, never empty; nil at the end and on every later call.
  ///
  /// Throws when the content breaks off: what has been read is incomplete, and the caller must not treat it as whole.
  func read() async throws(ContentError) -> [UInt8]?

  /// Stops reading, and releases what carries the content. Does nothing after the end, or a second time.
  func cancel()
}

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
