import ArgumentParser
import DeveloperToken
import TokenServer

/// Checks the settings.
struct CheckConfig: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check-config",
    abstract: "Check everything that serve would, report all faults, and start nothing.")

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    _ = SecureMemory.protect()
    try CheckConfigCommand(settings.input()).run().finish()
  }
}
