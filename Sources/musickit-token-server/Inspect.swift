import ArgumentParser
import DeveloperToken
import Glibc
import TokenServer

/// Explains a developer token.
struct Inspect: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Hold a developer token against each of Apple's rules; exit 1 if Apple would refuse it.")

  @Argument(help: "The token. Default: standard input.")
  var token: String?

  @Option(help: ArgumentHelp("The private key that should have signed it.", valueName: "file"))
  var keyFile: String?

  @Option(help: ArgumentHelp("The web origin that is to use it.", valueName: "origin"))
  var origin: String?

  @Flag(help: "Print a JSON object.")
  var json = false

  func run() throws {
    _ = SecureMemory.protect()
    let command = InspectCommand(token: token, keyFile: keyFile, origin: origin, isJSON: json)
    try command.run(input: STDIN_FILENO, now: time(nil)).finish()
  }
}
