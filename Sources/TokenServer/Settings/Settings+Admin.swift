extension Settings {
  /// The listener for operators.
  public struct Admin: Sendable, Equatable {
    /// Where it listens.
    public var host: ListenHost
    /// 0 picks a free one.
    public var port: UInt16
    /// The host names that requests may name, beside IP addresses and `localhost`; see ``Settings/adminHosts``.
    public var hosts: [String] = []
  }
}

extension Settings.Admin {
  static let enabled = Setting("admin.enabled", .bool, default: true)
  static let host = Setting("admin.host", .listenHost, default: .address("127.0.0.1"))
  static let port = Setting("admin.port", .integer(0...65_535), default: 8081)
  static let hosts = Setting<[String]>("admin.hosts", .hostNames)

  static var known: [KnownSetting] {
    [KnownSetting(enabled), KnownSetting(host), KnownSetting(port), KnownSetting(hosts)]
  }

  /// Nil if it is turned off, or faulty.
  init?(_ reader: inout SettingsReader) {
    let enabled = reader.read(Self.enabled)
    let port = reader.read(Self.port)
    let hosts = reader.read(Self.hosts) ?? []
    guard let host = reader.read(Self.host), let port, enabled == true else { return nil }
    self.init(host: host, port: UInt16(clamping: port), hosts: hosts)
  }
}
