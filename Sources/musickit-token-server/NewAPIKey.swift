import ArgumentParser
import DeveloperToken
import TokenServer

/// Makes an API key.
struct NewAPIKey: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "new-api-key",
    abstract: "Print a fresh API key, and on a second line the SHA-256 to put into the configuration.",
    discussion: """
      Nothing is stored: the client keeps the key, the server's settings its SHA-256. A key is mkts_, 43 random \
      characters (256 bits) and a checksum, so that secret scanners find it by \\bmkts_[0-9A-Za-z]{49}\\b.
      """)

  @Flag(help: "Print a JSON object with the members key and sha256.")
  var json = false

  func run() throws {
    _ = SecureMemory.protect()
    try NewAPIKeyCommand(isJSON: json).run().finish()
  }
}
