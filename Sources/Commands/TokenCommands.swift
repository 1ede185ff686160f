import Access
import ArgumentParser
import Bytes
import Cryptography
import DeveloperToken
import Glibc
import HTTPMessages
import JSON
import ServerSettings
import TokenServer

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
    do { return Int(try type.parse(.text(ttl), nil).components.seconds) } catch {
      throw InvalidValue("The lifetime \(error.problem)", remedy: error.remedy)
    }
  }
}

struct InspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect",
    abstract: "Check a developer token against each of Apple's rules; exit 1 if Apple would refuse it.")

  @Argument(help: "The token. Default: standard input.")
  var token: String?
  @Option(
    help: ArgumentHelp("The key that signed the token: the .p8 file, or its public key in PEM.", valueName: "file"))
  var keyFile: String?
  @Option(help: ArgumentHelp("The web origin that uses the token.", valueName: "origin"))
  var origin: String?
  @Flag(help: "Print a JSON object.")
  var json = false

  /// The maximum input in bytes. It exceeds every token, so that the inspector itself can report an overlong one.
  private static let inputLimit = 65_536

  func run() throws { try result(input: STDIN_FILENO, now: Glibc.time(nil)).finish() }

  func result(input: Int32, now: Int) -> CommandResult {
    do {
      let token = try token.map { Array($0.utf8) } ?? SmallFile.read(input, atMost: Self.inputLimit, within: nil)
      let origin = try origin.map { (text) throws(OriginError) in try Origin(text) }
      let plain = Inspector(origin: origin, now: now).inspect(token.span)
      let key = try keyFile.map { (file) throws(SigningKeyError) in try Self.key(file, for: plain) }
      let inspection = Inspector(key: key?.key, origin: origin, now: now).inspect(token.span)
      let report = InspectionReport(inspection, now: now)
      return CommandResult(
        inspection.isAcceptable ? .good : .failed, output: json ? [report.json] : report.lines,
        diagnostics: key?.findings ?? [])
    } catch let error as SigningKeyError {
      return CommandResult(.configuration, diagnostics: ["\(error)"])
    } catch let error as SmallFile.Failure {
      return CommandResult(.usage, diagnostics: ["The token on standard input \(error)."])
    } catch {
      return CommandResult(.usage, diagnostics: ["\(error)"])
    }
  }

  private static func key(
    _ file: String, for inspection: Inspection
  ) throws(SigningKeyError) -> (key: VerificationKey, findings: [String]) {
    if let key = try VerificationKey.load(publicKeyFile: file) { return (key, []) }
    let key: SigningKey
    do { key = try SigningKey.load(file: file, keyID: nil) } catch {
      switch error.reason {
      case .noKeyID, .badKeyIDInFileName:
        // Without an ID in the file's name, that of the token counts.
        guard let keyID = inspection.keyID.flatMap({ try? KeyID($0.text) }) else { throw error }
        key = try SigningKey.load(file: file, keyID: keyID)
      default: throw error
      }
    }
    return (key.verificationKey, key.findings.map(\.description))
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
    abstract: "Print a new API key, and on a second line “sha256” and its SHA-256 for the configuration.",
    discussion: """
      The command stores nothing: the client keeps the key, and the server's settings its SHA-256. A key is mkts_, 43 \
      random characters (256 bits) and a checksum, so that secret scanners find it by \\bmkts_[0-9A-Za-z]{49}\\b.
      """)

  @Flag(help: "Print a JSON object with the members key and sha256.")
  var json = false

  func run() throws { try result().finish() }

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
