/// What went wrong while a test prepared its ground, in a sentence.
public struct TestFailure: Error, CustomStringConvertible {
  /// The sentence.
  public let description: String

  /// A failure that says `description`.
  public init(_ description: String) {
    self.description = description
  }
}
