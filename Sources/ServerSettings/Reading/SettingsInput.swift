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

/// Gives typed values of the settings that were written, and collects what is wrong with them.
///
/// swift-configuration was weighed for this and left. Its readers give a setting's default when what was written cannot
/// be converted, or throw at the first that is missing or wrong, without saying which source that was in. Its providers
/// response one key of one type at a time and cannot list what they hold, so an unknown key cannot be found, nor a list of
/// objects read. And its JSON provider needs the whole of Foundation.
struct SettingsReader {
  private let layers: SettingsLayers
  private(set) var errors: [SettingsError]

  init(_ layers: SettingsLayers) {
    self.layers = layers
    errors = layers.errors
  }

  /// Whether a setting, or anything within a section, was written.
  func isSet(_ path: String) -> Bool {
    layers.values[path] != nil || layers.sections[path] != nil
  }

  /// Whether the section was written as an empty object; nil if it was not written as an object at all.
  func isEmptyObject(_ path: String) -> Bool? {
    layers.objects[path]
  }

  /// The setting's value, else its default; nil if it has neither or is invalid, which is then noted.
  mutating func read<Value>(_ setting: Setting<Value>) -> Value? {
    // A row outside of the list would be an unknown name in the file, and no document would have it.
    assert(Settings.schema.settings[setting.path] != nil, "\(setting.path) is not among the known settings")
    guard let raw = layers.values[setting.path] else { return setting.fallback }
    do throws(InvalidValue) {
      return try setting.type.parse(raw.content)
    } catch {
      let problem = setting.isSecret ? "is not what it should be" : error.problem
      errors.append(SettingsError(setting.path, source: raw.source, problem: problem, remedy: error.remedy))
      return nil
    }
  }

  /// Notes an error of `path`, with the place where it was written.
  mutating func reject(_ path: String, problem: String, remedy: String) {
    let source = layers.values[path]?.source ?? layers.sections[path]
    errors.append(SettingsError(path, source: source, problem: problem, remedy: remedy))
  }

  /// Notes an error of something within the list or object at `path`.
  mutating func reject(_ path: String, within place: String, problem: String, remedy: String) {
    errors.append(
      SettingsError(path + place, source: layers.values[path]?.source, problem: problem, remedy: remedy))
  }

  /// What `body` makes of the object that stands at `path`, in a setting that was read; nil if anything is wrong with it.
  mutating func readObject<Value>(
    _ value: JSON5Value, at path: String, _ body: (inout ObjectReader) -> Value?
  ) -> Value? {
    let setting = String(path.prefix { $0 != "[" })
    return ObjectReader.read(
      value, at: path, source: layers.values[setting]?.source, remedy: "write an object", errors: &errors, body)
  }

  /// Notes that a setting that must be written is missing.
  mutating func missing(_ path: String, remedy: String) {
    missing(path, problem: "is not set", remedy: "\(remedy), here or as \(variableName(of: path))")
  }

  /// Notes that something must be written, unless the file could not be read: it may well be there.
  mutating func missing(_ path: String, problem: String, remedy: String) {
    guard layers.isComplete else { return }
    reject(path, problem: problem, remedy: remedy)
  }
}
