/// How the length of a response's content is determined (RFC 9112 §6.3).
public enum ResponseFraming: Sendable, Equatable {
  /// There is no content: a response to HEAD, to CONNECT that succeeded, 204 or 304.
  case none
  /// Content-Length: that many bytes, zero among them.
  case fixed(Int)
  /// Transfer-Encoding: chunked.
  case chunked
  /// Neither: the content ends with the connection.
  case untilClose
}
