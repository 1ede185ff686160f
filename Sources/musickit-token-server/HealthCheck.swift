import ArgumentParser
import TokenServer

/// Asks a server whether it is well.
struct HealthCheck: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "healthcheck",
    abstract: "Exit 0 if a URL answers 200, by default /healthz of the admin listener in serve's settings.")

  @Option(help: ArgumentHelp("The URL to ask, http:// only.", valueName: "url"))
  var url: String?

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    try HealthCheckCommand(url: url, input: settings.input()).run().finish()
  }
}
