/// Which end of a connection a session is.
public enum HTTP2Role: Sendable, Equatable {
  /// Sends requests.
  case client
  /// Answers them.
  case server
}
