import DeveloperToken

/// Whose a presented API key is.
///
/// A presented key is hashed, and its digest looked up in a hash table, so a thousand clients with keys in rotation cost
/// what one does. How long that takes says nothing about the configured digests that would help to guess one: the place
/// in the table is by a hash of the whole digest with a seed of this process (SipHash), digests in the same place are
/// compared with all their bytes, and both work on SHA-256 of what was presented, not on what a caller can choose.
public struct APIKeyring: Sendable {
  private var clients: [APIKeyDigest: Int] = [:]

  /// One without keys.
  public init() {}

  /// How many keys there are.
  public var count: Int { clients.count }

  /// Adds a client's key.
  ///
  /// - Returns: The client who has this key already, who keeps it; nil if there was none.
  public mutating func add(_ digest: APIKeyDigest, for client: Int) -> Int? {
    if let owner = clients[digest] { return owner }
    clients[digest] = client
    return nil
  }

  /// The client whose key has this digest.
  public func client(for digest: APIKeyDigest) -> Int? { clients[digest] }

  /// The client whose key this is; nil if it is nobody's, or OpenSSL fails.
  public func client(presenting key: Span<UInt8>) -> Int? {
    guard !key.isEmpty, let digest = try? APIKeyDigest(of: key) else { return nil }
    return clients[digest]
  }
}
