public import Bytes

/// One of a client's callers, for sharing the quota fairly. Two are equal if client and rateLimitPrefix are.
public struct QuotaCaller: Sendable {
  /// The client, by the name that the operator gave it.
  public let client: String
  /// The most of the limit that the client may have under way, above 0 to 1, at least one request; nil if it is the only
  /// client there is, for whose others nothing need be held back.
  public let share: Double?
  /// Which of the client's callers: an address, or the user whom a token names.
  public let rateLimitPrefix: ByteString

  /// What a client may have where the operator says nothing and there are others: seven eighths.
  public static let usualShare = 0.875

  /// A caller.
  public init(client: String, share: Double? = nil, rateLimitPrefix: ByteString) {
    self.client = client
    self.share = share
    self.rateLimitPrefix = rateLimitPrefix
  }
}

extension QuotaCaller: Hashable {
  /// Whether it is the same caller of the same client.
  public static func == (left: QuotaCaller, right: QuotaCaller) -> Bool {
    left.rateLimitPrefix == right.rateLimitPrefix && left.client == right.client
  }

  /// Feeds both names.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(client)
    hasher.combine(rateLimitPrefix)
  }
}
