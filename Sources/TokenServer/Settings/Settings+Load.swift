extension Settings {
  /// Settings that a server can start with.
  public struct Loaded: Sendable {
    /// The settings.
    public let settings: Settings
    /// The files that the settings name, which the server has not read yet.
    let files: NamedFiles
    /// What is odd but harmless, each a sentence.
    public let warnings: [String]
    /// `HTTPS_PROXY` and `NO_PROXY`, for connections that no setting names a proxy for.
    let proxies: ProxyEnvironment
  }

  /// Every known setting, in the order of the documentation.
  static let known: [KnownSetting] =
    MusicKit.known + Token.known + Server.known + Admin.known + Catalog.known + Access.known + Audit.known
    + Log.known

  static let schema = SettingsSchema(known)

  /// Reads and checks every setting of `input`.
  ///
  /// It reads the configuration file and none of the files that the settings name.
  ///
  /// - Throws: ``InvalidSettings`` with all that is wrong.
  public static func load(_ input: SettingsInput) throws(InvalidSettings) -> Loaded {
    try SettingsDraft(input).complete()
  }

  /// The admin listener's settings alone, so that a health check does not need a key; nil if it is turned off.
  ///
  /// - Throws: ``InvalidSettings`` with what is wrong with these.
  public static func loadAdmin(_ input: SettingsInput) throws(InvalidSettings) -> Admin? {
    let layers = SettingsLayers(input, schema: schema)
    var reader = SettingsReader(layers)
    let admin = Admin(&reader)
    let faults = reader.faults.filter { $0.path.isEmpty || $0.path == "admin" || $0.path.hasPrefix("admin.") }
    guard faults.isEmpty else { throw InvalidSettings(faults: faults, warnings: []) }
    return admin
  }
}
