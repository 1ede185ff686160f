import ArgumentParser
import TokenServer

/// The commands.
struct MusicKitTokenServer: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "musickit-token-server",
    abstract: "Serves Apple Music developer tokens, and Apple's catalog without one.",
    version: Release.version.description,
    subcommands: [
      Serve.self, Demo.self, Sandbox.self, Mint.self, Inspect.self, CheckConfig.self, HealthCheck.self, NewAPIKey.self,
    ],
    defaultSubcommand: Serve.self)
}
