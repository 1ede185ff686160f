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
