/// Whether a cached token may be handed out again.
enum TokenReuse: Equatable {
  /// It may.
  case reuse
  /// It may, and a new one is due: at the very second when half of its life has passed.
  ///
  /// In this second one caller signs while the others get the present token, so nobody waits, and still nothing is
  /// handed out with less than half its life left.
  case renew
  /// It may not: more than half of its life has passed, or it was minted in what has become the future, because the
  /// clock went back. Its `iat` and its cap belong to that other time.
  case mint

  static func decide(mintedAt: Int, expiresAt: Int, now: Int) -> TokenReuse {
    guard mintedAt <= now else { return .mint }
    let half = halfLife(mintedAt: mintedAt, expiresAt: expiresAt)
    return now < half ? .reuse : now == half ? .renew : .mint
  }

  /// The last second at which at least half of its life is left.
  static func halfLife(mintedAt: Int, expiresAt: Int) -> Int { mintedAt + (expiresAt - mintedAt) / 2 }
}
