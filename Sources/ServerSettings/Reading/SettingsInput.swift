public import Cryptography

/// Everything that settings are read from.
public struct SettingsInput: Sendable {
  /// A `path=value` from the command line.
  public struct Flag: Sendable, Equatable {
    /// The flag as the user wrote it, with its dashes, for errors.
    public let name: String
    /// The setting's path.
    public let path: String
    /// Its value as text: lists and objects as JSON5.
    public let value: String

    /// A flag that sets `path` to `value`.
    public init(name: String, path: String, value: String) {
      self.name = name
      self.path = path
      self.value = value
    }
  }

  /// The configuration file; nil to use the one that `MUSICKIT_CONFIG` names, or no file without that variable.
  public var file: String?
  /// The process's environment. A variable that is empty counts as unset, since that is how many tools unset one.
  public var environment: [String: String]
  /// `MUSICKIT_KEY`, taken out of the environment before anything else could read it there.
  public var environmentKey: SecretBytes?
  /// What the command line sets; the last of two for the same path counts.
  public var flags: [Flag]
  /// Whether `--unsafe-allow-anonymous` was given.
  public var allowsAnonymous: Bool
  /// Whether `--unsafe-plain-upstream` was given.
  public var allowsPlainUpstream: Bool
  /// What the machine offers.
  public var host: HostFacts

  /// The configuration file that counts, if there is one.
  package var configurationFile: String? { file ?? environment["MUSICKIT_CONFIG"] }

  /// Input from `file`, `environment` and `flags`.
  public init(
    file: String? = nil,
    environment: [String: String] = [:],
    environmentKey: SecretBytes? = nil,
    flags: [Flag] = [],
    allowsAnonymous: Bool = false,
    allowsPlainUpstream: Bool = false,
    host: HostFacts
  ) {
    self.file = file
    self.environment = environment.filter { !$0.value.isEmpty }
    self.environmentKey = environmentKey?.count == 0 ? nil : environmentKey
    self.flags = flags
    self.allowsAnonymous = allowsAnonymous
    self.allowsPlainUpstream = allowsPlainUpstream
    self.host = host
  }
}
