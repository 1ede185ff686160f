/// Where a setting was written.
public enum SettingSource: Sendable, Equatable, CustomStringConvertible {
  /// The configuration file of this path.
  case file(String)
  /// The environment variable of this name.
  case environment(String)
  /// The command-line flag of this name, with its dashes.
  case flag(String)

  /// `file config.json5`, `SERVER_PORT` or `--port`. A key that was pasted in place of the file's path is not shown.
  public var description: String {
    switch self {
    case .file(let path): looksLikeKey(path) ? "file (\(path.utf8.count) bytes)" : "file \(path)"
    case .environment(let name), .flag(let name): name
    }
  }
}
