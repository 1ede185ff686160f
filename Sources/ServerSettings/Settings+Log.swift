public import Logging
public import Telemetry

extension Settings {
  /// How the server logs.
  public struct Log: Sendable, Equatable {
    /// The least that is logged.
    public var level: Logger.Level
    /// How a line looks.
    public var format: LogFormat
  }
}

extension Settings.Log {
  static let level = Setting<Logger.Level>(
    "log.level", .word, default: .info,
    "The least severe lines that the log has; above `info` it has no access lines.")
  static let format = Setting<LogFormat>(
    "log.format", .word, default: .json,
    "The form of a line. Default on a terminal: `text`.")

  static let known: [any SettingRow] =
    [level, format]

  init?(_ reader: inout SettingsReader, host: HostFacts) {
    let format = reader.isSet(Self.format.path) ? reader.read(Self.format) : host.logsToTerminal ? .text : .json
    guard let level = reader.read(Self.level), let format else { return nil }
    self.init(level: level, format: format)
  }
}

extension Settings {
  /// The audit log of what the server granted and refused.
  public struct Audit: Sendable, Equatable {
    /// The file of the audit log; nil to write it to the server's log.
    public var file: String?
  }
}

extension Settings.Audit {
  static let file = Setting(
    "audit.file", .path, example: #""/var/log/musickit-token-server/audit.log""#,
    "The file of the [audit log](operations.md#audit-log), which may be rotated by moving it away. Default: the "
      + "log.")

  static let known: [any SettingRow] =
    [file]

  /// Nil if it is invalid.
  init?(_ reader: inout SettingsReader) {
    guard reader.isSet(Self.file.path) else {
      self.init(file: nil)
      return
    }
    guard let file = reader.read(Self.file) else { return nil }
    self.init(file: file)
  }
}

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
  static let enabled = Setting(
    "admin.enabled", .bool, default: true,
    "The listener for operators.")
  static let host = Setting(
    "admin.host", .listenHost, default: .address("127.0.0.1"),
    "As `server.host`.")
  static let port = Setting(
    "admin.port", .integer(0...65_535), default: 8081,
    "0 picks a free port.")
  static let hosts = Setting<[String]>(
    "admin.hosts", .hostNames, example: #"["metrics.internal"]"#,
    "As `server.hosts`. Default: none on loopback, else any.")

  static let known: [any SettingRow] =
    [enabled, host, port, hosts]

  /// Nil if it is turned off, or invalid.
  init?(_ reader: inout SettingsReader) {
    let enabled = reader.read(Self.enabled)
    let port = reader.read(Self.port)
    let hosts = reader.read(Self.hosts) ?? []
    guard let host = reader.read(Self.host), let port, enabled == true else { return nil }
    self.init(host: host, port: UInt16(clamping: port), hosts: hosts)
  }
}
