import DeveloperToken

/// A setting as it was written, not yet understood.
struct RawSetting: Sendable {
  enum Content: Sendable {
    /// From the file, or from JSON5 in a variable or flag.
    case json(JSON5Value)
    /// From a variable or flag, where a number and a string look alike.
    case text(String)
    /// From a variable that was taken out of the environment.
    case secret(SecretBytes)
  }

  let content: Content
  let source: SettingSource
}
