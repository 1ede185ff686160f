import DeveloperToken

/// Whose a presented API key is.
///
/// A presented key is hashed, and its digest looked up in a hash table, so a thousand clients with keys in rotation cost
/// what one does. How long that takes tells nothing of the configured digests: what the table goes by, and compares
/// first, is a hash of the whole digest under a seed of this process (SipHash), in which a digest that has half its bytes
/// right is as far off as any other. Only where that is equal are the digests compared, with all their bytes.
public struct APIKeyring: Sendable {
  private var clients: [Slot: Int] = [:]

  /// One without keys.
  public init() {}

  /// How many keys there are.
  public var count: Int { clients.count }

  /// Adds a client's key.
  ///
  /// - Returns: The client who has this key already, who keeps it; nil if there was none.
  public mutating func add(_ digest: APIKeyDigest, for client: Int) -> Int? {
    let slot = Slot(digest)
    if let owner = clients[slot] { return owner }
    clients[slot] = client
    return nil
  }

  /// The client whose key has this digest.
  public func client(for digest: APIKeyDigest) -> Int? { clients[Slot(digest)] }

  /// Returns the client that owns this key; nil if no client owns it, or if OpenSSL fails.
  public func client(presenting key: Span<UInt8>) -> Int? {
    guard !key.isEmpty, let digest = try? APIKeyDigest(of: key) else { return nil }
    return client(for: digest)
  }

  private struct Slot: Hashable, Sendable {
    let digest: APIKeyDigest
    let seededHash: Int

    init(_ digest: APIKeyDigest) {
      self.digest = digest
      seededHash = digest.hashValue
    }

    static func == (left: Slot, right: Slot) -> Bool {
      left.seededHash == right.seededHash && left.digest == right.digest
    }

    func hash(into hasher: inout Hasher) { hasher.combine(seededHash) }
  }
}
