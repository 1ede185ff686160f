/// Why a text is not an origin that a token can bear.
public struct OriginError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What was given.
  let text: String
  /// The sentence without its subject.
  let problem: String

  /// One sentence that quotes the text, if it is short and harmless, and says what would be right.
  public var description: String { "The origin \(Printable.quote(text, limit: 120)) \(problem)" }
}
