/// Why no token can be minted.
public enum TokenError: Error, Sendable, Hashable, CustomStringConvertible {
  /// A lifetime below the least that makes sense; seconds.
  case ttlTooShort(requested: Int, minimum: Int)
  /// A lifetime above what the policy lets a request ask for; seconds.
  case ttlTooLong(requested: Int, maximum: Int)
  /// More origins than one token can bear.
  case tooManyOrigins(count: Int, maximum: Int)
  /// The clock cannot be right, so neither could the token's times be.
  case implausibleClock(now: Int)
  /// The team ID has been given as the key ID, or the other way round.
  case keyIDEqualsTeamID(KeyID)
  /// OpenSSL failed to sign.
  case signing(CryptographyError)

  /// One sentence for the caller.
  public var description: String {
    switch self {
    case .ttlTooShort(let requested, let minimum):
      "A lifetime of \(requested) s is too short; the least is \(minimum) s."
    case .ttlTooLong(let requested, let maximum):
      "A lifetime of \(requested) s is too long; the most that may be asked for is \(maximum) s."
    case .tooManyOrigins(let count, let maximum):
      "\(count) origins are too many for one token; the most is \(maximum)."
    case .implausibleClock(let now):
      "The clock of this machine says \(now) seconds since 1970, which cannot be right; set it before minting tokens."
    case .keyIDEqualsTeamID(let keyID):
      "The key ID and the team ID are both \(keyID); one of them has been given twice."
    case .signing(let error): "The token could not be signed. \(error)"
    }
  }
}
