/// Where a setting was written.
public enum SettingSource: Sendable, Equatable, CustomStringConvertible {
  /// The configuration file of this path.
  case file(String)
  /// The environment variable of this name.
  case environment(String)
  /// The command-line flag of this name, with its dashes.
  case flag(String)

  /// `file config.json5`, `SERVER_PORT` or `--port`.
  public var description: String {
    switch self {
    case .file(let path): "file \(path)"
    case .environment(let name), .flag(let name): name
    }
  }
}
