import ArgumentParser
import DeveloperToken
import Glibc
import TokenServer

/// Prints one developer token.
struct Mint: ParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Print one developer token and nothing else.")

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
    _ = SecureMemory.protect()
    let command = MintCommand(
      keyFile: keyFile, teamID: teamID, keyID: keyID, ttl: ttl, origins: origin, isJSON: json)
    try command.run(now: time(nil)).finish()
  }
}
