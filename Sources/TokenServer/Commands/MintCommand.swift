import DeveloperToken

/// Mints one developer token without a server.
public struct MintCommand: Sendable {
  private let keyFile: String
  private let teamID: String
  private let keyID: String?
  private let ttl: String?
  private let origins: [String]
  private let isJSON: Bool

  /// The command with what its flags say.
  public init(keyFile: String, teamID: String, keyID: String?, ttl: String?, origins: [String], isJSON: Bool) {
    self.keyFile = keyFile
    self.teamID = teamID
    self.keyID = keyID
    self.ttl = ttl
    self.origins = origins
    self.isJSON = isJSON
  }

  /// Mints a token. The result contains the token for standard output, or the error.
  ///
  /// - Parameter now: The time in seconds since 1970.
  public func run(now: Int) -> CommandResult {
    do {
      let teamID = try TeamID(teamID)
      let keyID = try keyID.map { (text) throws(IdentifierError) in try KeyID(text) }
      let origins = try origins.map { (text) throws(OriginError) in try Origin(text) }
      let ttl = try lifetime()
      let key = try SigningKey.load(file: keyFile, keyID: keyID)
      let policy = try TokenPolicy(maxTTL: TokenPolicy.maximumLifetime)
      let minter = try TokenMinter(key: key, team: teamID, policy: policy)
      let token = try minter.token(ttl: ttl, origins: origins, now: now)
      let output = isJSON ? String(decoding: TokenDocument(token, now: now).json, as: UTF8.self) : token.string
      return CommandResult(.good, output: [output], diagnostics: key.findings.map(\.description))
    } catch let error as SigningKeyError {
      return CommandResult(.configuration, diagnostics: [Self.sentence(error)])
    } catch let error as TokenError {
      return CommandResult(Self.status(error), diagnostics: ["\(error)"])
    } catch {
      return CommandResult(.usage, diagnostics: ["\(error)"])
    }
  }

  /// The error's sentence, with the flag in place of the setting that a server would need.
  private static func sentence(_ error: SigningKeyError) -> String {
    "\(error)".replacing("(musickit.keyID)", with: "(--key-id)")
  }

  private static func status(_ error: TokenError) -> CommandResult.Status {
    switch error {
    case .ttlTooShort, .ttlTooLong, .tooManyOrigins, .keyIDEqualsTeamID: .usage
    case .implausibleClock, .signing: .failed
    }
  }

  private func lifetime() throws(InvalidValue) -> Int? {
    guard let ttl else { return nil }
    let type = SettingType<Duration>.duration(seconds: TokenPolicy.minimumTTL...TokenPolicy.maximumLifetime)
    do {
      return Int(try type.parse(.text(ttl)).components.seconds)
    } catch {
      throw InvalidValue(problem: "The lifetime \(error.problem)", remedy: error.remedy)
    }
  }
}
