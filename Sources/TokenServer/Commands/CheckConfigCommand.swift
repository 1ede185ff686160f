import Logging
public import ServerSettings

/// Checks everything that `serve` would, and starts nothing.
public struct CheckConfigCommand: Sendable {
  private let input: SettingsInput

  /// The command with what the settings are read from.
  public init(_ input: SettingsInput) {
    self.input = input
  }

  /// One line of summary and one for each of those who may ask, on standard output; or every error, one a line, on standard error.
  public func run() -> CommandResult {
    let draft = SettingsDraft(input)
    let files = draft.files.load()
    let errors = (draft.errors + files.errors).lines
    let warnings = (draft.warnings + files.warnings).map { "Warning: \($0)" }
    guard errors.isEmpty, let loaded = try? draft.complete() else {
      return CommandResult(.configuration, diagnostics: errors + warnings)
    }
    let settings = loaded.settings
    return CommandResult(
      .good, output: [settings.summary] + settings.grants,
      diagnostics: warnings + [settings.missingRecord].compactMap { $0 }.map { "Warning: \($0)" })
  }
}

extension Settings {
  /// Who signs, and what a server with these settings listens on.
  var summary: String {
    let scheme = server.tls == nil ? "http" : "https"
    let address =
      switch server.address {
      case .tcp(let host, let port): "\(scheme) on \(host) port \(port)"
      case .unix(let path): "\(scheme) on \(path)"
      }
    let operators = admin.map { "admin on \($0.host) port \($0.port)" } ?? "no admin listener"
    return "The configuration is good: team \(musickit.teamID), \(address), \(operators)."
  }

  /// Why no audit log will exist; nil if there is one.
  var missingRecord: String? {
    guard log.level > .info, audit.file == nil else { return nil }
    return
      "Nothing records who was granted or refused what: log.level is \(quoted(log.level.rawValue)), and audit.file "
      + "is not set."
  }
}
