/// A text of the operator with its hash, which is computed once for all look-ups. The hash has a seed per process.
public struct HashedText: Sendable {
  /// The text.
  public let text: String
  /// The hash.
  public let hash: UInt64

  /// Computes the hash of `text`.
  public init(_ text: String) {
    self.text = text
    hash = Hasher.hash { $0.combine(text) }
  }
}

extension HashedText: Hashable {
  /// Returns whether both texts are the same.
  public static func == (left: HashedText, right: HashedText) -> Bool {
    left.hash == right.hash && left.text == right.text
  }

  /// Feeds the computed hash.
  public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

extension HashedText: ExpressibleByStringLiteral {
  /// Computes the hash of a literal.
  public init(stringLiteral text: String) { self.init(text) }
}

extension Hasher {
  /// Returns the hash of what `feed` adds, with a seed per process.
  public static func hash(_ feed: (inout Hasher) -> Void) -> UInt64 {
    var hasher = Hasher()
    feed(&hasher)
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}
