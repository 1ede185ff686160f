import ArgumentParser
import Cryptography
import EventLoop
import Glibc
import ServerSettings
import TokenServer

struct ServeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "serve", abstract: "Run the server (the default).")

  @OptionGroup var settings: SettingsOptions

  func run() throws { try Self.result(settings.input(), findings: SecureMemory.protect()).finish() }

  /// Serves until a signal ends the process. The `findings` are the failures to protect the key's memory.
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

struct CheckConfigCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check-config", abstract: "Check everything that serve checks, report all errors, and start nothing.")

  @OptionGroup var settings: SettingsOptions

  func run() throws { try Self.result(settings.input()).finish() }

  /// Prints a line of summary and one for each client, or one for each error.
  static func result(_ input: SettingsInput) -> CommandResult {
    let draft = SettingsDraft(input)
    let files = draft.files.load()
    let errors = (draft.errors + files.errors).lines
    let warnings = (draft.warnings + files.warnings).map { "Warning: \($0)" }
    guard errors.isEmpty, let summary = draft.summary, let loaded = try? draft.complete() else {
      return CommandResult(.configuration, diagnostics: errors + warnings)
    }
    return CommandResult(
      .good, output: ["The configuration is valid: \(summary)"] + loaded.settings.grants, diagnostics: warnings)
  }
}

extension SettingsDraft {
  /// The team, and the addresses of a server with these settings; nil if one of them is invalid.
  var summary: String? {
    guard let musickit, let server else { return nil }
    let scheme = server.tls == nil ? "http" : "https"
    let address =
      switch server.address {
      case .tcp(let host, let port): "\(scheme) on \(host) port \(port)\(server.isPortOfPlatform ? " (PORT)" : "")"
      case .unix(let path): "\(scheme) on \(path)"
      case .passed(let sockets): "\(scheme) on \(Endpoint.passed(sockets))"
      }
    let operators = admin.map { "admin on \($0.host) port \($0.port)" } ?? "no admin listener"
    return "team \(musickit.teamID), \(address), \(operators)."
  }
}
