/// The protocol versions that this codec speaks.
public enum HTTPVersion: Sendable, Equatable {
  /// HTTP/1.0.
  case http10
  /// HTTP/1.1. A higher minor version counts as this one (RFC 9110 §2.5).
  case http11
}
