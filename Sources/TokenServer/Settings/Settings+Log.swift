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
  static let level = Setting<Logger.Level>("log.level", .word, default: .info)
  static let format = Setting<LogFormat>("log.format", .word, default: .json)

  static var known: [KnownSetting] { [KnownSetting(level), KnownSetting(format)] }

  init?(_ reader: inout SettingsReader, host: HostFacts) {
    let format = reader.isSet(Self.format.path) ? reader.read(Self.format) : host.logsToTerminal ? .text : .json
    guard let level = reader.read(Self.level), let format else { return nil }
    self.init(level: level, format: format)
  }
}
