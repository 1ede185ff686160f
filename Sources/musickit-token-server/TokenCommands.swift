import ArgumentParser
import Commands
import Glibc

struct Inspect: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect",
    abstract: "Check a developer token against each of Apple's rules; exit 1 if Apple would refuse it.")

  @Argument(help: "The token. Default: standard input.")
  var token: String?

  @Option(
    help: ArgumentHelp("The key that signed the token: the .p8 file, or its public key in PEM.", valueName: "file")
  )
  var keyFile: String?

  @Option(help: ArgumentHelp("The web origin that uses the token.", valueName: "origin"))
  var origin: String?

  @Flag(help: "Print a JSON object.")
  var json = false

  func run() throws {
    let command = InspectCommand(token: token, keyFile: keyFile, origin: origin, isJSON: json)
    try command.run(input: STDIN_FILENO, now: time(nil)).finish()
  }
}

struct Mint: ParsableCommand {
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

  func run() throws {
    let command = MintCommand(
      keyFile: keyFile, teamID: teamID, keyID: keyID, ttl: ttl, origins: origin, isJSON: json)
    try command.run(now: time(nil)).finish()
  }
}

struct NewAPIKey: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "new-api-key",
    abstract: "Print a new API key, and on a second line its SHA-256 for the configuration.",
    discussion: """
      The command stores nothing: the client keeps the key, and the server's settings its SHA-256. A key is mkts_, 43 \
      random characters (256 bits) and a checksum, so that secret scanners find it by \\bmkts_[0-9A-Za-z]{49}\\b.
      """)

  @Flag(help: "Print a JSON object with the members key and sha256.")
  var json = false

  func run() throws {
    try NewAPIKeyCommand(isJSON: json).run().finish()
  }
}
