import ArgumentParser
import Cryptography
import DeveloperToken
import Glibc
import ServerSettings
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

/// Runs a server with nothing to configure.
struct Demo: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Run a server with a throwaway key, on loopback only, for everybody there.")

  @Option(help: "The port to listen on; 0 picks a free one.")
  var port: UInt16 = 8080

  func run() throws {
    try DemoCommand(port: port, host: .current()).run(findings: ProcessSetup.findings) {
      CommandResult.print($0, to: STDOUT_FILENO)
    }.finish()
  }
}

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

/// Checks the settings.
struct CheckConfig: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check-config",
    abstract: "Check everything that serve would, report all errors, and start nothing.")

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    _ = SecureMemory.protect()
    try CheckConfigCommand(settings.input()).run().finish()
  }
}
