public import Cryptography
import EventLoop
import Glibc
public import ServerSettings

/// Runs the server.
public struct ServeCommand: Sendable {
  private let input: SettingsInput

  /// Creates the command with the sources of the settings.
  public init(_ input: SettingsInput) {
    self.input = input
  }

  /// Serves until a signal ends the process, or returns the errors of the configuration.
  ///
  /// - Parameters:
  ///   - findings: The failures to protect the key's memory.
  ///   - announce: Called with a line for each listener, once they accept connections.
  public func run(findings: [Finding], announce: ([String]) -> Void) -> CommandResult {
    do {
      // While there is one thread, because both change the environment.
      let manager = try ServiceNotifier.take()
      let sockets = try PassedListeners(PassedSocket.take())
      var input = input
      input.host.sockets = sockets
      let load: Reloader.Load = { [input] () throws(InvalidSettings) in try Settings.load(input) }
      // The fingerprints come before the contents, so a change in between causes another reload.
      var files = FileFingerprints([input.configurationFile].compactMap { $0 })
      // Settings may come from a pipe, which can take any time.
      ProcessSignals.endAtOnce()
      let loaded = try load()
      ProcessSignals.hold()
      files.watch(loaded.paths)
      var source = try RuntimeSnapshot.Source(loaded)
      source.warnings += findings.map(\.description)
      let confinement = confinement(of: loaded, keepsAbstractSockets: manager?.isAbstract == true)
      let reload: Reloader.Load = { [input] () throws(InvalidSettings) in
        try Self.checkReloads(of: input.configurationFile)
        // First, because a settings file that cannot be read has no settings.
        let file = input.configurationFile.map { [(setting: "--config", path: $0)] } ?? []
        try confinement.check(file)
        let loaded = try load()
        try confinement.check(loaded.files.paths)
        return loaded
      }
      try Application(source).run(reload: (reload, files), manager: manager, confinement: confinement) {
        announce($0.lines + loaded.settings.server.portNote)
      }
      return CommandResult(.good)
    } catch let error as InvalidSettings {
      return CommandResult(.configuration, diagnostics: error.errors.lines + hint(about: error.errors))
    } catch {
      return CommandResult(failedStart: error)
    }
  }

  /// What to do first, if nothing is set at all.
  private func hint(about errors: [SettingsError]) -> [String] {
    // A missing setting has no source.
    guard input.configurationFile == nil, errors.count >= 3, errors.allSatisfy({ $0.source == nil }) else { return [] }
    return [
      "To try the server without a key and settings: musickit-token-server demo. To name a configuration file: --config "
        + "FILE, or MUSICKIT_CONFIG."
    ]
  }

  /// Throws if the configuration has come from a pipe without a name, as in `--config <(…)`, which ends with the start.
  /// A FIFO in a folder may have another writer by now.
  private static func checkReloads(of configurationFile: String?) throws(InvalidSettings) {
    var status = stat()
    guard let path = configurationFile, unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else {
      return
    }
    if let name = unsafe realpath(path, nil) { return unsafe free(name) }
    let error = SettingsError(
      "--config", problem: "the file \(quotedPath(path)) is a pipe, which the server has read to its end at the start",
      remedy: "a reload needs a file: write the settings into one, and restart the server with its path")
    throw InvalidSettings(errors: [error], warnings: [])
  }

  /// Gives up what the server does not need, while there is one thread.
  private func confinement(of loaded: Settings.Loaded, keepsAbstractSockets: Bool) -> FileConfinement {
    let settings = loaded.settings
    guard settings.server.landlock else { return FileConfinement(outcome: .notEnforced("server.landlock is false")) }
    var socket: String?
    if case .unix(let path) = settings.server.address { socket = path }
    let grants = FileConfinement.Grants(reading: loaded.paths, auditFile: settings.audit.file, unixSocket: socket)
    return .begin(grants, keepsAbstractSockets: keepsAbstractSockets)
  }
}

extension Settings.Server {
  /// A line that says where the port comes from, if an operator may not expect it.
  fileprivate var portNote: [String] {
    isPortOfPlatform ? ["The port is that of the variable PORT, because server.port is not set."] : []
  }
}

extension Application.Addresses {
  /// One line for each listener.
  var lines: [String] {
    `public`.map { "Listening on \(url($0))" } + admin.map { "Admin on http://\($0)" }
  }

  /// Whether only this machine reaches the public listener.
  var areLoopback: Bool { `public`.allSatisfy { $0.ipAddress?.isLoopback ?? true } }

  /// Returns `https://127.0.0.1:8080`, or `unix:/run/server.sock`.
  func url(_ address: SocketAddress) -> String {
    guard case .ip = address else { return "\(address)" }
    return "\(isSecure ? "https" : "http")://\(address)"
  }
}

/// The output of a command, and its exit status.
public struct CommandResult: Sendable, Equatable {
  /// The exit statuses of the program. The last three are from sysexits.h.
  public enum Status: Int32, Sendable {
    /// The command succeeded.
    case good = 0
    /// The check or the operation failed.
    case failed = 1
    /// The command line is wrong.
    case usage = 64
    /// The program cannot start now, and a later start may succeed with the same settings: another program listens on the
    /// address, or the machine does not have it yet.
    case temporary = 75
    /// The configuration is wrong.
    case configuration = 78
  }

  /// The exit status.
  public var status: Status
  /// The lines for standard output: only the requested result.
  public var output: [String]
  /// The lines for standard error: diagnostics, a sentence each.
  public var diagnostics: [String]
  /// The lines for standard error that explain the output. They mean nothing without it.
  public var explanation: [String]

  /// Creates a result.
  public init(_ status: Status, output: [String] = [], diagnostics: [String] = [], explanation: [String] = []) {
    self.status = status
    self.output = output
    self.diagnostics = diagnostics
    self.explanation = explanation
  }

  /// Creates the result of a server that does not start.
  init(failedStart error: any Error) {
    let isTemporary = (error as? StartError)?.isTemporary ?? false
    self.init(isTemporary ? .temporary : .configuration, diagnostics: ["\(error)"])
  }
}

/// Writes JSON (RFC 8259) and keeps the order of members.
enum JSONText {
  /// Returns a quoted string. All characters except printable ASCII are escaped, so the text is safe on any terminal.
  static func string(_ text: String) -> String {
    var json = "\""
    for unit in text.utf16 {
      switch unit {
      case 0x22, 0x5C: json += "\\" + String(UnicodeScalar(UInt8(unit)))
      case 0x20..<0x7F: json.unicodeScalars.append(UnicodeScalar(UInt8(unit)))
      default:
        let digits = String(unit, radix: 16)
        json += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      }
    }
    return json + "\""
  }

  /// Returns an array of values that are JSON already.
  static func array(_ values: [String]) -> String {
    "[" + values.joined(separator: ",") + "]"
  }

  /// Returns an object of members with values that are JSON already, and leaves out members without a value.
  static func object(_ members: [(name: String, value: String?)]) -> String {
    "{" + members.compactMap { member in member.value.map { "\(string(member.name)):\($0)" } }.joined(separator: ",")
      + "}"
  }
}
