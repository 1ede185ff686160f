import ArgumentParser
import TokenServer

/// Runs the server.
struct Serve: ParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Run the server (the default).")

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    try CommandResult(.failed, diagnostics: ["This build has no server."]).finish()
  }
}
