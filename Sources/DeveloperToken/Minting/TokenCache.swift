import Bytes
import Cryptography
public import HTTPMessages

/// Tokens by their claims: bounded, least recently used out first. Holds no lock, knows no clock and signs nothing.
///
/// A caller asks by `request`. A caller that is told to sign must call `finish`, even if signing failed.
struct TokenCache {
  /// What makes two requests ask for the same token; `origins` in ascending order, each once.
  struct Key: Hashable {
    let ttl: Int
    let origins: [Origin]
  }

  /// What a caller has to do.
  enum Step {
    /// Take this token.
    case take(MintedToken)
    /// Sign a new one; should that fail, the old one still serves if there is one.
    case sign(present: MintedToken?)
    /// Another caller is signing the first token: ask again after that.
    case wait
  }

  private struct Entry {
    let key: Key
    var token: MintedToken
    var newer: Int
    var older: Int
  }

  /// Stands for "no entry" in the list's links.
  private static let none = -1

  let capacity: Int
  /// Slots of the recency list; once full, the oldest slot is used again.
  private var entries: [Entry] = []
  private var indices: [Key: Int] = [:]
  private var newest = none
  private var oldest = none
  /// As many as there are callers inside `request` and `finish`, at most.
  private var signing: Set<Key> = []

  init(capacity: Int) { self.capacity = max(capacity, 1) }

  var count: Int { entries.count }

  mutating func request(_ key: Key, now: Int) -> Step {
    guard let index = find(key) else { return start(key, present: nil) }
    let token = entries[index].token
    switch TokenReuse.decide(mintedAt: token.mintedAt, expiresAt: token.expiresAt, now: now) {
    case .reuse: return .take(token)
    case .renew: return start(key, present: token)
    case .mint: return start(key, present: nil)
    }
  }

  /// The end of a signature: `token` is nil if it failed, and then the next caller tries.
  mutating func finish(_ key: Key, _ token: MintedToken?) {
    signing.remove(key)
    guard let token else { return }
    if let index = find(key) {
      entries[index].token = token
    } else {
      insert(key, token)
    }
  }

  private mutating func start(_ key: Key, present: MintedToken?) -> Step {
    if signing.insert(key).inserted { return .sign(present: present) }
    return present.map { .take($0) } ?? .wait
  }

  /// The entry's slot, which becomes the newest.
  private mutating func find(_ key: Key) -> Int? {
    // Most callers want what the last one wanted: two comparisons instead of a hash.
    if newest != Self.none, entries[newest].key == key { return newest }
    guard let index = indices[key] else { return nil }
    unlink(index)
    link(index)
    return index
  }

  private mutating func insert(_ key: Key, _ token: MintedToken) {
    let entry = Entry(key: key, token: token, newer: Self.none, older: Self.none)
    let index: Int
    if entries.count < capacity {
      index = entries.count
      entries.append(entry)
    } else {
      index = oldest
      unlink(index)
      indices[entries[index].key] = nil
      entries[index] = entry
    }
    indices[key] = index
    link(index)
  }

  private mutating func link(_ index: Int) {
    entries[index].newer = Self.none
    entries[index].older = newest
    if newest != Self.none { entries[newest].newer = index }
    newest = index
    if oldest == Self.none { oldest = index }
  }

  private mutating func unlink(_ index: Int) {
    let (newer, older) = (entries[index].newer, entries[index].older)
    if newer == Self.none { newest = older } else { entries[newer].older = older }
    if older == Self.none { oldest = newer } else { entries[older].newer = newer }
  }
}

/// A signed developer token. A value that costs one reference count to hand on.
public struct MintedToken: Sendable {
  private let storage: Storage
  /// When to come back for the next one: once half its life has passed, never before it was handed out.
  public let refreshAfter: Int

  private final class Storage: Sendable {
    let compact: [UInt8]
    let claims: Claims
    let mintedAt: Int
    /// Made once for all who get the token: each grant is recorded with it.
    let sha256: String

    init(compact: [UInt8], claims: Claims, mintedAt: Int) throws(CryptographyError) {
      self.compact = compact
      self.claims = claims
      self.mintedAt = mintedAt
      sha256 = String(hexadecimal: try SHA256.digest(of: compact.span).span)
    }
  }

  init(compact: [UInt8], claims: Claims, mintedAt: Int) throws(CryptographyError) {
    storage = try Storage(compact: compact, claims: claims, mintedAt: mintedAt)
    refreshAfter = TokenReuse.halfLife(mintedAt: mintedAt, expiresAt: claims.expiresAt)
  }

  /// The JWS in compact serialization (RFC 7515 §7.1), ASCII.
  public var compact: [UInt8] { storage.compact }
  /// The same as a string.
  public var string: String { String(decoding: storage.compact, as: UTF8.self) }
  /// What it claims.
  public var claims: Claims { storage.claims }
  /// `iat`, whole seconds since 1970.
  public var issuedAt: Int { storage.claims.issuedAt }
  /// `exp`, whole seconds since 1970.
  public var expiresAt: Int { storage.claims.expiresAt }
  /// The origins it is bound to, in the order of their bytes.
  public var origins: [Origin] { storage.claims.origins }
  /// SHA-256 of the compact form in hexadecimal: names the token where the token itself must not stand.
  public var sha256: String { storage.sha256 }

  var mintedAt: Int { storage.mintedAt }
}

extension MintedToken: CustomStringConvertible, CustomReflectable {
  /// Not the token, which is a credential.
  public var description: String { "DeveloperToken(sha256: \(sha256))" }
  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Whether a cached token may be handed out again.
enum TokenReuse: Equatable {
  /// It may.
  case reuse
  /// The token may be reused, and a new one is due: exactly half of its life has passed.
  ///
  /// In this second one caller signs a new token while the others get the present one. So no caller waits, and every
  /// token that the server hands out has at least half of its life left.
  case renew
  /// The token may not be reused. More than half of its life has passed, or the clock went back, so that the token was
  /// minted in what is now the future. Its `iat` and its cap then belong to that other time.
  case mint

  static func decide(mintedAt: Int, expiresAt: Int, now: Int) -> TokenReuse {
    guard mintedAt <= now else { return .mint }
    let half = halfLife(mintedAt: mintedAt, expiresAt: expiresAt)
    return now < half ? .reuse : now == half ? .renew : .mint
  }

  /// The last second at which at least half of its life is left.
  static func halfLife(mintedAt: Int, expiresAt: Int) -> Int { mintedAt + (expiresAt - mintedAt) / 2 }
}
