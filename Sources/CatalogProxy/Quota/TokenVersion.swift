/// Which of the developer tokens that were made one after the other a request bore.
public struct TokenVersion: Sendable, Hashable, Comparable {
  let number: UInt64

  /// Whether `left` is the older one.
  public static func < (left: TokenVersion, right: TokenVersion) -> Bool {
    left.number < right.number
  }
}
