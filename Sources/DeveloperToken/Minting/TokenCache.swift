import HTTPMessages

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
