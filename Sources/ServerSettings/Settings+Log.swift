package import EventLoop
import Glibc
package import Logging
package import Telemetry

extension Settings {
  package struct Log: Sendable, Equatable {
    package var level: Logger.Level
    /// From 0 to 1.
    package var access = 1.0
    package var format: LogFormat
  }
}

extension Settings.Log {
  static let level = Setting<Logger.Level>(
    "log.level", .word, default: .info,
    "The least severe lines that the log has; above `info` it has no access lines.")
  static let access = Setting(
    "log.access", .number(0...1, remedy: "write a part of all requests such as 0.01"), default: 1,
    "The part of the requests that have an access line. A response with a status from 400 always has one.")
  static let format = Setting<LogFormat>(
    "log.format", .word, default: .json, fixed: .of(\.log.format),
    "The form of a line. Default on a terminal: `text`.")

  static let known: [any SettingRow] =
    [level, access, format]

  init?(_ reader: inout SettingsReader, host: HostFacts) {
    let format = reader.isSet(Self.format.path) ? reader.read(Self.format) : host.logsToTerminal ? .text : .json
    let access = reader.read(Self.access)
    guard let level = reader.read(Self.level), let format, let access else { return nil }
    self.init(level: level, access: access, format: format)
  }
}

extension Settings {
  /// The audit log of what the server granted and refused.
  package struct Audit: Sendable, Equatable {
    /// Nil to write to the server's log instead.
    package var file: String?
    package var isRequired = false
  }
}

extension Settings.Audit {
  static let file = Setting(
    "audit.file", .path, example: #""/var/log/musickit-token-server/audit.log""#, fixed: .of(\.audit.file),
    "The file of the [audit log](logs.md#audit-log), which may be rotated by moving it away. Default: the "
      + "log.")
  static let required = Setting(
    "audit.required", .bool, default: false, fixed: .of(\.audit.isRequired),
    "Whether a grant that cannot be recorded is refused with 503 `audit_unavailable`. Otherwise it is given, counted and "
      + "shown by `/readyz`.")

  static let known: [any SettingRow] =
    [file, required]

  /// Reads the settings. Returns nil if they are invalid.
  init?(_ reader: inout SettingsReader) {
    let file = reader.read(Self.file)
    guard let isRequired = reader.read(Self.required), file != nil || !reader.isSet(Self.file.path) else { return nil }
    self.init(file: file, isRequired: isRequired)
  }

  /// Checks whether the file could be opened, without a change to the file, and differs from `others`.
  func check(others: [(setting: String, path: String)]) -> [SettingsError] {
    guard let file else { return [] }
    if let other = others.first(where: { Self.isSame(file, $0.path) }) {
      return [
        SettingsError(
          Self.file.path, problem: "the file \(quotedPath(file)) is also that of \(other.setting)",
          remedy: "write the path of another file, because the server appends to it")
      ]
    }
    guard let reason = Self.obstacle(file) else { return [] }
    return [
      SettingsError(
        Self.file.path, problem: "the file \(quotedPath(file)) \(reason)",
        remedy: "write the path of a file in a folder that the server may write to")
    ]
  }

  private static func isSame(_ file: String, _ other: String) -> Bool {
    var (one, two) = (stat(), stat())
    return unsafe stat(file, &one) == 0 && stat(other, &two) == 0 && one.st_mode & S_IFMT == S_IFREG
      && one.st_dev == two.st_dev && one.st_ino == two.st_ino
  }

  private static func obstacle(_ file: String) -> String? {
    var status = stat()
    let exists = unsafe stat(file, &status) == 0
    // A directory can be writable too, but not like a file.
    if exists, status.st_mode & S_IFMT == S_IFDIR { return "is a directory" }
    let folder = file.lastIndex(of: "/").map { String(file[...$0]) } ?? "."
    guard unsafe access(exists ? file : folder, W_OK) != 0 else { return nil }
    return "cannot be written: \(unsafe String(cString: strerror(errno)))"
  }
}

extension Settings {
  package struct Admin: Sendable, Equatable {
    package var host: ListenHost
    package var port: UInt16
    /// See ``Settings/adminHosts``.
    package var hosts: [String] = []
    package var page = false
    /// Sockets that the service manager has opened, instead of the address in the settings.
    package var passed: [PassedSocket] = []
  }
}

extension Settings.Admin {
  static let enabled = Setting(
    "admin.enabled", .bool, default: true, fixed: .presence(of: \.admin),
    "The listener for operators.")
  static let host = Setting(
    "admin.host", .listenHost, default: .address("127.0.0.1"), fixed: .of(\.admin, \.host),
    "As `server.host`.")
  static let port = Setting(
    "admin.port", .integer(0...65_535), default: 8081, fixed: .of(\.admin, \.port),
    "0 picks a free port.")
  static let hosts = Setting<[String]>(
    "admin.hosts", .hostNames, example: #"["metrics.internal"]"#,
    "As `server.hosts`. Default: none, because this listener asks for no credential.")
  static let page = Setting(
    "admin.page", .bool, default: false, fixed: .of(\.admin, \.page),
    "Whether the admin listener serves [the page](page.md) for operators: access decisions, live metrics and the last "
      + "audit records.")

  static let known: [any SettingRow] =
    [enabled, host, port, hosts, page]

  /// Reads the settings. Returns nil if the listener is disabled, or if they are invalid.
  init?(_ reader: inout SettingsReader, passed: [PassedSocket] = []) {
    let enabled = reader.read(Self.enabled)
    if enabled == false, !passed.isEmpty {
      reader.reject(
        Self.enabled.path, problem: "is false, and the service manager passes a socket with the name admin",
        remedy: "write true, or disable the socket unit")
    }
    let port = reader.read(Self.port)
    let hosts = reader.read(Self.hosts) ?? []
    let page = reader.read(Self.page) ?? false
    guard let host = reader.read(Self.host), let port, enabled == true else { return nil }
    self.init(host: host, port: UInt16(clamping: port), hosts: hosts, page: page, passed: passed)
  }
}
