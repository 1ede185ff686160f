import Access
import ArgumentParser
import Cryptography
import DeveloperToken
import Glibc
import HTTPMessages
import JSON
import ServerSettings

struct MintCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "mint", abstract: "Print one developer token and nothing else.")

  @Option(help: ArgumentHelp("The private key from Apple, AuthKey_<KEYID>.p8.", valueName: "file"))
  var keyFile: String
  @Option(help: ArgumentHelp("The 10-character Team ID of your Apple developer account.", valueName: "id"))
  var teamID: String
  @Option(help: ArgumentHelp("The key's 10-character ID. Default: the one in the file's name.", valueName: "id"))
  var keyID: String?
  @Option(help: ArgumentHelp("How long the token lives, such as 30d. Default: 12h.", valueName: "duration"))
  var ttl: String?
  @Option(help: ArgumentHelp("A web origin to bind the token to; may be repeated.", valueName: "origin"))
  var origin: [String] = []
  @Flag(help: "Print a JSON object, as GET /token does.")
  var json = false

  func run() throws { try result(now: Glibc.time(nil)).finish() }

  func result(now: Int) -> CommandResult {
    do {
      let teamID = try TeamID(teamID)
      let keyID = try keyID.map { (text) throws(IdentifierError) in try KeyID(text) }
      let origins = try origin.map { (text) throws(OriginError) in try Origin(text) }
      let ttl = try lifetime()
      let key = try SigningKey.load(file: keyFile, keyID: keyID)
      let policy = try TokenPolicy(maxTTL: TokenPolicy.maximumLifetime)
      let minter = try TokenMinter(key: key, team: teamID, policy: policy)
      let token = try minter.token(ttl: ttl, origins: origins, now: now)
      let output = json ? String(decoding: TokenDocument(token, now: now).json, as: UTF8.self) : token.string
      return CommandResult(.good, output: [output], diagnostics: key.findings.map(\.description))
    } catch let error as SigningKeyError {
      return CommandResult(.configuration, diagnostics: ["\(error)".replacing("(musickit.keyID)", with: "(--key-id)")])
    } catch let error as TokenError {
      return CommandResult(Self.status(error), diagnostics: ["\(error)"])
    } catch {
      return CommandResult(.usage, diagnostics: ["\(error)"])
    }
  }

  private static func status(_ error: TokenError) -> CommandResult.Status {
    switch error {
    case .ttlTooShort, .ttlTooLong, .tooManyOrigins, .keyIDEqualsTeamID: .usage
    case .implausibleClock, .signing, .signer, .signerBusy: .failed
    }
  }

  private func lifetime() throws(InvalidValue) -> Int? {
    guard let ttl else { return nil }
    let type = SettingType<Duration>.duration(seconds: TokenPolicy.minimumTTL...TokenPolicy.maximumLifetime)
    do {
      return Int(try type.parse(.text(ttl), nil).components.seconds)
    } catch {
      throw InvalidValue("The lifetime \(error.problem)", remedy: error.remedy)
    }
  }
}

/// The check for a private key on the command line, which all users can see and the shell's history keeps.
package enum MisplacedKey {
  /// Returns the refusal of `arguments`, which quotes none of them; nil if none of them is a key.
  package static func refusal(of arguments: [String]) -> CommandResult? {
    guard arguments.indices.contains(where: { isKey($0, of: arguments) }) else { return nil }
    return CommandResult(
      .usage,
      diagnostics: [
        "One of the arguments is a key, and every user of the machine can see a command line. Write the path of a file "
          + "that contains the key."
      ])
  }

  private static func isKey(_ index: Int, of arguments: [String]) -> Bool {
    let argument = arguments[index]
    func isKey(_ value: String, of option: String) -> Bool {
      let isToken = arguments.first == "doctor" && option == DoctorCommand.userTokenOption
      return isToken ? CommandSecret.isKey(value) : looksLikeKey(value)
    }
    guard argument.hasPrefix("--"), let equals = argument.firstIndex(of: "=") else {
      return isKey(argument, of: index > 0 ? arguments[index - 1] : "")
    }
    let option = String(argument[..<equals])
    return looksLikeKey(option) || isKey(String(argument[argument.index(after: equals)...]), of: option)
  }
}

struct NewAPIKeyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "new-api-key",
    abstract: "Print a new API key, and on a second line its SHA-256 for the configuration.",
    discussion: """
      The command stores nothing: the client keeps the key, and the server's settings its SHA-256. A key is mkts_, 43 \
      random characters (256 bits) and a checksum, so that secret scanners find it by \\bmkts_[0-9A-Za-z]{49}\\b.
      """)

  @Flag(help: "Print a JSON object with the members key and sha256.")
  var json = false

  func run() throws { try result().finish() }

  /// Returns the key and its SHA-256 for standard output, and for standard error the instructions for each.
  private func result() -> CommandResult {
    do {
      let key = try APIKey.generate()
      // Only here a key becomes text, because the program is about to print it and keeps no copy.
      let text = key.withBytes { bytes in String(decoding: bytes.indices.map { bytes[$0] }, as: UTF8.self) }
      let sha256 = key.digest.hexadecimal
      guard !json else {
        return CommandResult(.good, output: [(["key": .text(text), "sha256": .text(sha256)] as JSONValue).ascii])
      }
      return CommandResult(
        .good, output: [text, "sha256 \(sha256)"],
        explanation: [
          "The first line is the key. Give it to the client, which sends it as “Authorization: Bearer KEY” or"
            + " “X-API-Key: KEY”. It is printed once and not stored.",
          "The second line is for the configuration, which never contains the key itself:"
            + " access: { clients: [{ id: \"my-app\", apiKey: { sha256: \"\(sha256)\" } }] }",
        ])
    } catch {
      return CommandResult(.failed, diagnostics: ["\(error)"])
    }
  }
}
