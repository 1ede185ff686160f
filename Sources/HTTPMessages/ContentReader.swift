/// Content of a message that comes in parts (RFC 9110 §6.4): of a request that is being received, or of an upstream's
/// response. Whoever reads sets the pace: what is not read is not received, up to the transport's own window.
///
/// Confined to the event loop that it belongs to, and read by one task at a time.
public protocol ContentReader: AnyObject, Sendable {
  /// The next part, never empty; nil at the end, and again if asked again.
  ///
  /// Throws when the content breaks off: what has been read is not the whole, and must not pass for it.
  func read() async throws(ContentError) -> [UInt8]?

  /// Says that nobody reads on: what carries it is released. Does nothing after the end, or a second time.
  func cancel()
}
