import Bytes
import Cryptography
public import HTTPMessages

/// A bounded cache of tokens by their claims, which evicts the least recently used: a value without lock and clock. A
/// caller calls `request`. If the result is to sign, the caller must call `finish`, even if signing failed.
struct TokenCache {
  /// The properties that requests for the same token share; `origins` in ascending order without duplicates.
  struct Key: Hashable {
    let ttl: Int
    let origins: [Origin]
  }

  enum Step {
    /// Take this token, with its document of now.
    case take(TokenDocument)
    /// Sign a new token. If that fails, the caller can still use the present one, unless it is nil.
    case sign(present: TokenDocument?)
    /// Wait for another caller, which is signing the first token, and then call `request` again.
    case wait
  }

  private struct Entry {
    let key: Key
    /// The token with its document of the latest second in which a caller wanted it.
    var document: TokenDocument
    var use = 0
  }

  private var capacity: Int
  /// To find the least recently used entry, which gives way to another, takes a small part of a signature's time.
  private var entries: [Entry] = []
  private var indices: [Key: Int] = [:]
  /// The entry of the latest use, and the number of that use.
  private var latest: Int?
  private var uses = 0
  /// The keys that callers are signing now, at most one for each caller.
  private var signing: Set<Key> = []

  init(capacity: Int) { self.capacity = max(capacity, 1) }

  /// Makes room for more entries. The present ones stay.
  mutating func grow(to capacity: Int) { self.capacity = max(capacity, self.capacity) }

  var count: Int { entries.count }

  /// Returns the next step of a caller. With `renewsAhead`, a new token is signed before half of the lifetime has
  /// passed, by a quarter of that half, at most ten minutes, while callers get the present one.
  mutating func request(_ key: Key, now: Int, renewsAhead: Bool = false) -> Step {
    guard let index = find(key) else { return start(key, present: nil) }
    let token = entries[index].document.token
    // After half of its lifetime, no caller gets the token. If the clock went back, `iat` and `exp` may be too late.
    guard token.mintedAt <= now, now <= token.refreshAfter else { return start(key, present: nil) }
    let document = document(at: index, now: now)
    // In the second in which exactly half has passed, one caller signs a new token while other callers get the present one.
    // So no caller waits, and every token that the server returns has at least half of its lifetime left.
    let lead = renewsAhead ? min((token.refreshAfter - token.mintedAt) / 4, 600) : 0
    return now < token.refreshAfter - lead ? .take(document) : start(key, present: document)
  }

  /// Returns the document of an entry. It changes once a second, so most callers share one.
  private mutating func document(at index: Int, now: Int) -> TokenDocument {
    if entries[index].document.now != now {
      entries[index].document = TokenDocument(entries[index].document.token, now: now)
    }
    return entries[index].document
  }

  /// Records the end of signing. `document` is nil if signing failed; the next caller then tries again.
  mutating func finish(_ key: Key, _ document: TokenDocument?) {
    signing.remove(key)
    guard let document else { return }
    if let index = find(key) { entries[index].document = document } else { insert(key, document) }
  }

  private mutating func start(_ key: Key, present: TokenDocument?) -> Step {
    if signing.insert(key).inserted { return .sign(present: present) }
    return present.map { .take($0) } ?? .wait
  }

  /// Returns the place of the entry and makes it the latest, or nil.
  private mutating func find(_ key: Key) -> Int? {
    // Most callers want the same token as the last one, which costs two comparisons instead of a hash.
    if let latest, entries[latest].key == key { return latest }
    guard let index = indices[key] else { return nil }
    use(index)
    return index
  }

  private mutating func insert(_ key: Key, _ document: TokenDocument) {
    let entry = Entry(key: key, document: document)
    var index = entries.count
    if index < capacity {
      entries.append(entry)
    } else {
      index = entries.indices.min { entries[$0].use < entries[$1].use } ?? 0
      indices[entries[index].key] = nil
      entries[index] = entry
    }
    indices[key] = index
    use(index)
  }

  private mutating func use(_ index: Int) {
    uses += 1
    entries[index].use = uses
    latest = index
  }
}

/// A signed developer token. It is a class, so that a copy costs one reference count.
public final class MintedToken: Sendable {
  /// The JWS in compact serialization (RFC 7515 §7.1), ASCII.
  public let compact: [UInt8]
  /// The claims of the token.
  public let claims: Claims
  let mintedAt: Int
  /// When a client should request the next token: the last second at which at least half of the lifetime is left.
  public let refreshAfter: Int
  /// The SHA-256 of the compact form, which identifies the token where it must not appear, as in records of grants.
  public let sha256: InlineArray<32, UInt8>

  init(compact: [UInt8], claims: Claims, mintedAt: Int) throws(CryptographyError) {
    (self.compact, self.claims, self.mintedAt) = (compact, claims, mintedAt)
    refreshAfter = mintedAt + (claims.expiresAt - mintedAt) / 2
    sha256 = try SHA256.digest(of: compact.span)
  }

  /// The compact serialization as a string.
  public var string: String { String(decoding: compact, as: UTF8.self) }
  /// `iat`, whole seconds since 1970.
  public var issuedAt: Int { claims.issuedAt }
  /// `exp`, whole seconds since 1970.
  public var expiresAt: Int { claims.expiresAt }
  /// The origins to which the token is bound, in the order of their bytes.
  public var origins: [Origin] { claims.origins }
}

extension MintedToken: CustomStringConvertible, CustomReflectable {
  /// A text without the token, which is a credential.
  public var description: String { "DeveloperToken(sha256: \(String(hexadecimal: sha256.span)))" }
  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A developer token with its times at one moment, as in the response of `/token` and the output of `mint --json`.
public struct TokenDocument: Sendable {
  /// The token.
  public let token: MintedToken
  /// The moment, in seconds since 1970.
  public let now: Int
  /// The JSON object in UTF-8. `origin` is present only if the token is bound to one.
  public let json: [UInt8]

  /// Creates the document of `token` at `now`, in seconds since 1970.
  public init(_ token: MintedToken, now: Int) {
    self.token = token
    self.now = now
    json = Self.json(token, now: now)
  }

  private static func json(_ token: MintedToken, now: Int) -> [UInt8] {
    let (compact, origins) = (token.compact, token.origins)
    var json: [UInt8] = []
    // The names and marks take 66 bytes, and each of the four numbers 20 at most. No origin needs an escape.
    let room = origins.reduce(compact.count + 160) { $0 + $1.description.utf8.count + 14 }
    json.append(addingCapacity: room) { (json: inout OutputSpan<UInt8>) in
      json.append(#"{"token":""#)
      json.append(copying: compact.span)
      json.append(#"","issuedAt":"#)
      json.append(decimal: token.issuedAt)
      json.append(#","expiresAt":"#)
      json.append(decimal: token.expiresAt)
      json.append(#","expiresIn":"#)
      json.append(decimal: token.expiresAt - now)
      json.append(#","refreshAfter":"#)
      json.append(decimal: max(token.refreshAfter, now))
      if origins.isEmpty { json.append("}") }
    }
    guard !origins.isEmpty else { return json }
    for (index, origin) in origins.enumerated() {
      json.append(index == 0 ? #","origin":["# : ",")
      json.append(jsonString: origin.description)
    }
    json.append("]}")
    return json
  }
}

extension TokenDocument: CustomStringConvertible, CustomReflectable {
  /// A text without the token, which is a credential.
  public var description: String { token.description }
  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
