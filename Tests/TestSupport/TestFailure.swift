/// A failure during the preparation of a test.
public struct TestFailure: Error, CustomStringConvertible {
  /// A sentence that describes the failure.
  public let description: String

  /// Creates a failure with this description.
  public init(_ description: String) {
    self.description = description
  }
}
