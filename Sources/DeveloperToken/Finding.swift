/// Something that is not as it should be and does not stop the server: a line for the log.
public struct Finding: Sendable, Hashable, CustomStringConvertible {
  /// What the finding is about, in dotted lower case; never changes for the same fact.
  public let id: String
  /// One sentence for the operator. Never key material.
  public let description: String

  /// A finding with its stable id and its sentence.
  public init(id: String, description: String) {
    self.id = id
    self.description = description
  }
}
