public import DeveloperToken

/// A MusicKit key that the emulator knows, as Apple knows those that it has issued.
public struct TrustedKey: Sendable {
  /// The team that it belongs to.
  public let team: TeamID
  /// Its identifier.
  public let keyID: KeyID
  /// The public half, which knows its own identifier.
  let key: VerificationKey

  /// The public half of `key`, which signs for `team`.
  public init(team: TeamID, key: SigningKey) {
    (self.team, self.keyID, self.key) = (team, key.keyID, key.verificationKey)
  }
}
