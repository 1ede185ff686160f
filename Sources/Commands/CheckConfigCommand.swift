import ArgumentParser
import EventLoop
import ServerSettings
import TokenServer

/// Performs all checks of `serve`, but starts nothing.
struct CheckConfigCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check-config", abstract: "Check everything that serve checks, report all errors, and start nothing.")

  @OptionGroup var settings: SettingsOptions

  func run() throws { try Self.result(settings.input()).finish() }

  /// Returns one line of summary and one for each client on standard output, or one line for each error on standard
  /// error.
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
