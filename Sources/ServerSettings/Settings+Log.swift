package import EventLoop
import Glibc
package import Logging
package import Telemetry

extension Settings {
  package struct Log: Sendable, Equatable {
    package var level = Logger.Level.info
    package var access = 1.0
    package var format = LogFormat.json
  }
}

extension Settings.Log: SettingsSection {
  static let place = SectionPlace(\.log)

  static let rows: [SectionRow<Self>] = [
    row(
      "log.level", .word, \.level, isLive: true,
      "The least severe lines that the log has; above `info` it has no access lines."),
    row(
      "log.access", .number(0...1, remedy: "write a part of all requests such as 0.01"), \.access, isLive: true,
      "The part of the requests that have an access line. A response with a status from 400 always has one."),
    row("log.format", .word, \.format, "The form of a line. Default on a terminal: `text`."),
  ]

  init?(_ reader: inout SettingsReader, host: HostFacts) {
    self.init()
    if host.logsToTerminal { format = .text }
    guard read(&reader) else { return nil }
  }
}

extension Settings {
  package struct Audit: Sendable, Equatable {
    package var file: String?
    package var isRequired = false
  }
}

extension Settings.Audit: SettingsSection {
  static let place = SectionPlace(\.audit)

  static let rows: [SectionRow<Self>] = [
    row(
      "audit.file", .path, \.file, example: #""/var/log/musickit-token-server/audit.log""#,
      "The file of the [audit log](logs.md#audit-log), which may be rotated by moving it away. Default: the log."),
    row(
      "audit.required", .bool, \.isRequired,
      "Whether a grant that cannot be recorded is refused with 503 `audit_unavailable`. Otherwise it is given, counted and "
        + "shown by `/readyz`."),
  ]

  init?(_ reader: inout SettingsReader) {
    self.init()
    guard read(&reader), file != nil || !reader.isSet("audit.file") else { return nil }
  }

  /// Checks whether the file could be opened, without a change to the file, and differs from `others`.
  func check(others: [(setting: String, path: String)]) -> SettingsError? {
    guard let file else { return nil }
    if let other = others.first(where: { Self.isSame(file, $0.path) }) {
      return SettingsError(
        "audit.file", problem: "the file \(quotedPath(file)) is also that of \(other.setting)",
        remedy: "write the path of another file, because the server appends to it")
    }
    return Self.obstacle(file).map { reason in
      SettingsError(
        "audit.file", problem: "the file \(quotedPath(file)) \(reason)",
        remedy: "write the path of a file in a folder that the server may write to")
    }
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
    package var host = ListenHost.address("127.0.0.1")
    package var port: UInt16 = 8081
    package var hosts: [String] = []
    package var page = false
    package var passed: [PassedSocket] = []
  }
}

extension Settings.Admin: SettingsSection {
  static let place = SectionPlace(\.admin)

  static let enabled = Setting(
    "admin.enabled", .bool, default: true, fixed: .presence(of: \.admin), "The listener for operators.")

  static let rows: [SectionRow<Self>] = [
    .own(enabled),
    row("admin.host", .listenHost, \.host, "As `server.host`."),
    row("admin.port", .port, \.port, "0 picks a free port."),
    row(
      "admin.hosts", .hostNames, \.hosts, example: #"["metrics.internal"]"#, isLive: true,
      "As `server.hosts`. Default: none, because this listener asks for no credential."),
    row(
      "admin.page", .bool, \.page,
      "Whether the admin listener serves [the page](page.md) for operators: access decisions, live metrics and the last "
        + "audit records."),
  ]

  init?(_ reader: inout SettingsReader, passed: [PassedSocket] = []) {
    self.init()
    let isEnabled = reader.read(Self.enabled)
    if isEnabled == false, !passed.isEmpty {
      reader.reject(
        Self.enabled.path, "is false, and the service manager passes a socket with the name admin",
        remedy: "write true, or disable the socket unit")
    }
    self.passed = passed
    guard read(&reader), isEnabled == true else { return nil }
  }
}
