/// A reader of message content that arrives in parts (RFC 9110 §6.4): of a request that the server receives, or of an
/// upstream's response. The reader sets the pace: the transport receives at most its own window ahead of the reader.
///
/// Confined to its event loop, and read by one task at a time.
public protocol ContentReader: AnyObject, Sendable {
  /// Returns the next part, which is never empty. Returns nil at the end and on every later call.
  ///
  /// Throws if the content breaks off. Then the content so far is incomplete, and the caller must not treat it as
  /// complete.
  func read() async throws(ContentError) -> [UInt8]?

  /// Returns what can be read without a wait. Throws like ``read()``.
  func readAtOnce() throws(ContentError) -> AvailableContent

  /// Lets content arrive before it is read, up to `limit` bytes, so that a slow reader does not hold up the sender. Calls
  /// `ended` once, on the loop: when all content has arrived, or when no more will.
  ///
  /// - Parameter holder: The address that the memory of unread content is charged to; nil for the server itself.
  func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void)

  /// Stops reading, and releases the stream or connection below. Does nothing after the end, or when called again.
  func cancel()
}

/// What a reader has without a wait.
public enum AvailableContent: Sendable {
  case part([UInt8])
  case end
  case nothing
}

extension ContentReader {
  /// A reader that cannot know has nothing.
  public func readAtOnce() throws(ContentError) -> AvailableContent { .nothing }

  /// A reader that does not receive the content itself lets nothing arrive ahead, and never calls `ended`.
  public func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
  ) {}

  /// Returns the whole content. Throws if it is longer than `limit` bytes, and leaves the rest to the caller: a handler
  /// can still respond to a request whose content is too long, but not after it has cancelled the reader.
  public func whole(atMost limit: Int) async throws(ContentError) -> [UInt8] {
    var content: [UInt8] = []
    while let part = try await read() {
      guard content.count + part.count <= limit else { throw .tooLarge(limit: limit) }
      content += part
    }
    return content
  }
}

/// The reason why content ended before it was complete.
public enum ContentError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The sender broke off or violated the protocol; the sentence says how.
  case broken(String)
  /// The next part did not arrive in time.
  case timedOut
  /// The reader or its task was cancelled.
  case cancelled
  /// The content is longer than the reader accepts, in bytes.
  case tooLarge(limit: Int)

  /// One sentence for the operator.
  public var description: String {
    switch self {
    case .broken(let sentence): sentence
    case .timedOut: "The rest did not arrive in time."
    case .cancelled: "The response was cancelled."
    case .tooLarge(let limit): "It is longer than \(limit) bytes."
    }
  }
}
