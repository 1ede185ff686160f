public import HTTPTypes

/// What the head of a final response says.
public struct ResponseHead: Sendable, Equatable {
  /// The status code, 200 to 599.
  public internal(set) var status = 0
  /// The version of the protocol.
  public internal(set) var version = HTTPVersion.http11
  /// The end-to-end fields, in the order received, and valid. Those of the connection are gone: Connection and what it
  /// names (RFC 9110 §7.6.1), and Content-Length, which is ``contentLength``.
  public internal(set) var fields = HTTPFields()
  /// What Content-Length says. Not what comes, in a response to HEAD or a 304.
  public internal(set) var contentLength: Int?
  /// How the content is framed.
  public internal(set) var framing = ResponseFraming.untilClose
  /// Whether the connection can carry another request after this response (RFC 9112 §9.3).
  public internal(set) var keepAlive = true

  init() {}
}
