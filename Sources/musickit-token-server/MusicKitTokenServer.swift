import ArgumentParser

/// The commands.
struct MusicKitTokenServer: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "musickit-token-server",
    abstract: "Serves Apple Music developer tokens, and Apple's catalog without one.",
    version: "0.1.0",
    subcommands: [Serve.self, Demo.self, Sandbox.self, Mint.self, Inspect.self, CheckConfig.self, HealthCheck.self],
    defaultSubcommand: Serve.self)
}
