import ArgumentParser
import Glibc
import TokenServer

/// Runs the server.
struct Serve: ParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Run the server (the default).")

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    try ServeCommand(settings.input()).run(findings: ProcessSetup.findings) {
      CommandResult.print($0, to: STDOUT_FILENO)
    }.finish()
  }
}
