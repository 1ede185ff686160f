/// Why bytes are not a set of keys to verify JWTs by.
public struct JSONWebKeySetError: Error, Sendable, Equatable, CustomStringConvertible {
  /// One sentence with “The key set” for its subject: what is wrong, and what to do about it if that is known.
  public let description: String

  init(_ description: String) {
    self.description = description
  }
}
