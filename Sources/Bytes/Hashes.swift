/// SplitMix64 (Steele, Lea, Flood 2014): a counter with values mixed by a bijection, the same in every run.
public struct SplitMix64: Sendable {
  @usableFromInline var state: UInt64

  /// Creates a generator with a start value.
  @inlinable
  public init(state: UInt64) { self.state = state }

  /// Returns the next number. 2^64 of them differ.
  @inlinable
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    return Self.mix(state)
  }

  /// Returns the number that the bijection maps `value` to.
  @inlinable
  public static func mix(_ value: UInt64) -> UInt64 {
    var mixed = value
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

extension UInt64 {
  /// Creates a hash that depends only on the bytes, the same in every run (FNV-1a). It resists no attack.
  public init(fnv1a bytes: some Sequence<UInt8>) {
    self = bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }
}

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
