package import Cryptography
package import DeveloperToken

extension Settings {
  package struct MusicKit: Sendable {
    package enum Key: Sendable {
      /// A `.p8` file with this path. Without a key ID, the one in the name `AuthKey_<KEYID>.p8` counts.
      case file(String, keyID: KeyID?)
      /// The key itself, in the settings.
      case text(SecretBytes, keyID: KeyID)
    }

    package var teamID: TeamID
    /// The private key that signs, until the next key replaces it.
    package var key: Key
    /// The path of the setting that names ``key``, for errors.
    package var keySetting: String
    /// Nil without a rotation.
    package var next: NextKey?
    /// The IDs of keys that signed before.
    package var retired: [KeyID] = []
  }
}

extension Settings.MusicKit {
  static let teamID = Setting<TeamID>(
    "musickit.teamID",
    .identifier("write the Team ID from the membership details of your Apple developer account") {
      (text) throws(IdentifierError) in try TeamID(text)
    }, example: #""TEAM123456""#,
    "The 10-character Team ID of your Apple developer account. Required.")
  static let keyID = Setting<KeyID>(
    "musickit.keyID",
    .identifier("write the key ID that Apple shows beside the key, as in AuthKey_<KEYID>.p8") {
      (text) throws(IdentifierError) in try KeyID(text)
    }, example: #""ABC1234567""#,
    "The key's 10-character ID. Default: the one in the file name `AuthKey_<KEYID>.p8`. Required with "
      + "`musickit.key`.")
  static let keyFile = Setting(
    "musickit.keyFile", .path, example: #""AuthKey_ABC1234567.p8""#,
    "The MusicKit private key, the `.p8` file from Apple. This, `musickit.key` or `musickit.keys` is required.")
  static let key = Setting<SecretBytes>(
    "musickit.key", .secret("write the text of the .p8 file"), isSecret: true,
    example: #""-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----\n""#,
    "The key itself, for platforms that pass secrets only in variables. No flag sets it, because other users can "
      + "see flags.")

  static let known: [any SettingRow] =
    [teamID, keyID, keyFile, key, keys]

  init?(_ reader: inout SettingsReader) {
    let teamID = reader.read(Self.teamID)
    let keyID = reader.read(Self.keyID)
    reader.require(Self.teamID.path, remedy: "write the 10-character Team ID of your Apple developer account")
    if let teamID, teamID.description == keyID?.description {
      reader.reject(
        Self.keyID.path, problem: "is the same as musickit.teamID",
        remedy: "write the key's own ID, the one in its file name AuthKey_<KEYID>.p8")
    }
    let keys = Self.readKeys(&reader, keyID)
    guard let teamID, let keys else { return nil }
    self.init(
      teamID: teamID, key: keys.active.key, keySetting: keys.active.setting, next: keys.next, retired: keys.retired)
  }

  private static func readKeys(_ reader: inout SettingsReader, _ id: KeyID?) -> Keys? {
    if reader.isSet(keys.path) {
      for other in [key.path, keyFile.path, keyID.path] where reader.isSet(other) {
        reader.reject(keys.path, problem: "is set, and so is \(other)", remedy: "keep one of the two")
      }
      return readRotation(&reader)
    }
    let file = reader.read(keyFile)
    let text = reader.read(key)
    switch (reader.isSet(keyFile.path), reader.isSet(key.path)) {
    case (false, false):
      reader.missing(keyFile.path, remedy: "write the path of the .p8 file from Apple, or its text as musickit.key")
    case (true, true):
      reader.reject(key.path, problem: "is set, and so is musickit.keyFile", remedy: "keep one of the two")
    case (true, false):
      return file.map { Keys(active: (.file($0, keyID: id), keyFile.path)) }
    case (false, true):
      if let id { return text.map { Keys(active: (.text($0, keyID: id), key.path)) } }
      reader.require(keyID.path, remedy: "write the key's 10-character ID, which a key without a file name lacks")
    }
    return nil
  }
}

extension Settings {
  package struct Token: Sendable, Equatable {
    package var ttl: Duration
    package var maxTTL: Duration
    package var backdate: Duration
  }
}

extension Settings.Token {
  /// Apple's six months in seconds: the maximum lifetime of a token.
  static let cap = 15_777_000

  static let ttl = Setting(
    "token.ttl", .duration(seconds: 60...cap), default: .seconds(12 * 3600),
    "The lifetime of a token from now. A token in a browser should outlive a listening session, because MusicKit "
      + "JS takes no new token while it plays.")
  static let maxTTL = Setting(
    "token.maxTTL", .duration(seconds: 60...cap), default: .seconds(24 * 3600),
    "The longest lifetime that a request may have; `token.ttl` if that is longer.")
  static let backdate = Setting(
    "token.backdate", .duration(seconds: 0...3600), default: .seconds(60),
    "How far `iat` lies in the past, for verifiers whose clock is slow.")

  static let known: [any SettingRow] =
    [ttl, maxTTL, backdate]

  init?(_ reader: inout SettingsReader) {
    let backdate = reader.read(Self.backdate)
    let maxTTL = reader.read(Self.maxTTL)
    guard let ttl = reader.read(Self.ttl), let maxTTL, let backdate else { return nil }
    if reader.isSet(Self.maxTTL.path), maxTTL < ttl {
      reader.reject(
        Self.maxTTL.path, problem: "is less than token.ttl",
        remedy: "write \"\(durationText(Int(ttl.components.seconds)))\" or more, or a smaller token.ttl")
    }
    self.init(ttl: ttl, maxTTL: max(ttl, maxTTL), backdate: backdate)
  }
}
