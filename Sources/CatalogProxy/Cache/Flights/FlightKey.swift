public import HTTPTypes

/// What requests have to have in common to become one upstream request: everything that is sent.
///
/// A request whose fields differ, and might select another variant (RFC 9111 §4.1), is another flight from the start. The
/// response is still handed to all only if it may be shared, see ``StoredAnswer/isShareable``.
public struct FlightKey: Hashable, Sendable {
  private let key: CacheKey
  private var sent: HTTPFields

  /// - Parameters:
  ///   - key: The target.
  ///   - sent: All end-to-end fields that are sent upstream. Authorization is left out: it is the proxy's own, and means
  ///     the same after a new token. A field that is another for each request would keep any two from sharing.
  public init(_ key: CacheKey, sent: HTTPFields) {
    self.key = key
    self.sent = sent
    if sent.contains(.authorization) { self.sent[.authorization] = nil }
  }

  /// Feeds the target only. The fields are of the proxy's own making, two sets of them at most for a target that is
  /// shared; to hash them took longer than everything else about a flight.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(key)
  }
}
