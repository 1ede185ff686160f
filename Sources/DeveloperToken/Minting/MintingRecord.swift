/// The latest tokens that a minter made for one use.
public struct MintingRecord: Sendable {
  /// The holder of tokens.
  public enum Use: Int, Sendable, CaseIterable {
    case caller
    /// The server itself, for its requests to the upstream.
    case upstream
  }

  /// The times of a token, in seconds since 1970.
  public struct Times: Sendable, Equatable {
    /// When the token was minted.
    public let mintedAt: Int
    /// When the token expires.
    public let expiresAt: Int
  }

  /// When the last token was minted, whatever its claims; nil before the first.
  public private(set) var lastMintedAt: Int?
  /// The times of the last usual token: for callers, one with the default lifetime and without origins, because a
  /// requested short lifetime says nothing about the others.
  public private(set) var usual: Times?
  /// The number of tokens that could not be minted.
  public private(set) var failures = 0

  mutating func note(_ result: Result<MintedToken, TokenError>, isUsual: Bool) {
    guard case .success(let token) = result else { return failures += 1 }
    lastMintedAt = token.mintedAt
    if isUsual { usual = Times(mintedAt: token.mintedAt, expiresAt: token.expiresAt) }
  }
}

extension [MintingRecord] {
  subscript(use: MintingRecord.Use) -> MintingRecord {
    get { self[use.rawValue] }
    set { self[use.rawValue] = newValue }
  }
}
