import Bytes
import Cryptography
public import HTTPMessages

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
