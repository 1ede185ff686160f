/// How the length of a message body is determined (RFC 9112 §6.3).
public enum MessageFraming: Sendable, Equatable {
  /// There is no body.
  case none
  /// Content-Length: that many bytes, zero among them.
  case fixed(Int)
  /// Transfer-Encoding: chunked.
  case chunked
}
