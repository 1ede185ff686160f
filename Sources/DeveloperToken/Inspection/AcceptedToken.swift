package import Bytes
import Cryptography

/// A MusicKit key as Apple knows it: its identifier, its team, and its public half.
package struct TrustedKey: Sendable {
  package let team: TeamID
  package let keyID: KeyID
  let key: VerificationKey

  /// Trusts the public half of `key`, which signs for `team`.
  package init(team: TeamID, key: SigningKey) {
    (self.team, self.keyID, self.key) = (team, key.keyID, key.verificationKey)
  }
}

/// A developer token that Apple would accept now from one of its origins, or from any if it names none.
package struct AcceptedToken: Sendable {
  /// The key that made the token.
  package let key: TrustedKey
  /// Seconds since 1970.
  package let expiry: Int
  /// The values of `origin`.
  package let origins: [ByteString]

  /// The first of Apple's rules that a token breaks.
  package struct Refusal: Error {
    /// The rule, and what is wrong.
    package let reason: String

    /// Creates a refusal.
    package init(_ reason: String) {
      self.reason = reason
    }
  }

  /// Judges a token as Apple does, which knows all keys. Warnings of the ``Inspector`` have no effect, and nothing may
  /// surround the token.
  ///
  /// - Parameter now: Seconds since 1970.
  package init(_ compact: [UInt8], of keys: [TrustedKey], now: Int) throws(Refusal) {
    do { _ = try JWS(compact: compact.span) } catch { throw Refusal("form: \(error)") }
    let claimed = Inspector(now: now).inspect(compact.span)
    let known = keys.filter { claimed.keyID == ByteString($0.keyID.description) }
    guard let key = known.first(where: { claimed.issuer == ByteString($0.team.description) }) ?? known.first else {
      throw Self.refusal(claimed) ?? Refusal("header.kid: no such key")
    }
    let inspection = Inspector(key: key.key, now: now).inspect(compact.span)
    if let refusal = Self.refusal(inspection) { throw refusal }
    guard inspection.issuer == ByteString(key.team.description), let expiry = inspection.expiresAt else {
      throw Refusal("claims.iss: not the key's team")
    }
    (self.key, self.expiry, origins) = (key, expiry, inspection.origins)
  }

  private static func refusal(_ inspection: Inspection) -> Refusal? {
    inspection.checks.first { $0.verdict == .fail }.map { Refusal("\($0.rule): \($0.explanation)") }
  }
}
