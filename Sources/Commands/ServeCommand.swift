import ArgumentParser
import Cryptography
import Glibc
import ServerSettings
import TokenServer

/// Runs the server.
struct ServeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Run the server (the default).")

  @OptionGroup var settings: SettingsOptions

  func run() throws { try Self.result(settings.input(), findings: SecureMemory.protect()).finish() }

  /// Serves until a signal ends the process, or returns the errors of the configuration. The `findings` are the failures to
  /// protect the key's memory.
  static func result(_ input: SettingsInput, findings: [Finding]) -> CommandResult {
    do {
      let hasAllRecords = try Application.serve(input, findings: findings) { addresses, server in
        let note = "The port is that of the variable PORT, because server.port is not set."
        CommandResult.print(addresses.lines + (server.isPortOfPlatform ? [note] : []), to: STDOUT_FILENO)
      }
      return CommandResult(hasAllRecords ? .good : .failed)
    } catch {
      var result = CommandResult(error, otherwise: .configuration)
      if let error = error as? InvalidSettings { result.diagnostics += hint(about: error.errors, input) }
      return result
    }
  }

  /// What to do first, if nothing is set at all.
  private static func hint(about errors: [SettingsError], _ input: SettingsInput) -> [String] {
    // A missing setting has no source.
    guard input.configurationFile == nil, errors.count >= 3, errors.allSatisfy({ $0.source == nil }) else { return [] }
    return [
      "To try the server without a key and settings: musickit-token-server demo. To name a configuration file: --config "
        + "FILE, or MUSICKIT_CONFIG."
    ]
  }
}
