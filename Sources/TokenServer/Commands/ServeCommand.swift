public import Cryptography
import EventLoop
public import ServerSettings

/// Runs the server.
public struct ServeCommand: Sendable {
  private let input: SettingsInput

  /// The command with what the settings are read from.
  public init(_ input: SettingsInput) {
    self.input = input
  }

  /// Serves until a signal ends it; or says what is wrong with the configuration.
  ///
  /// - Parameters:
  ///   - findings: What could not be done to protect the key's memory.
  ///   - announce: Called with a line for each listener, once they accept connections.
  public func run(findings: [Finding], announce: ([String]) -> Void) -> CommandResult {
    do {
      let input = input
      let load: Reloader.Load = { () throws(InvalidSettings) in try Settings.load(input) }
      // Looked at before they are read: a change in between is a reason to read them again.
      var files = FileFingerprints([input.configurationFile].compactMap { $0 })
      // Settings may come from a pipe, which takes as long as its writer likes.
      ProcessSignals.endAtOnce()
      let loaded = try load()
      ProcessSignals.hold()
      files.watch(loaded.settings.files)
      var source = try RuntimeSnapshot.Source(loaded)
      source.warnings += findings.map(\.description)
      try Application(source).run(reload: (load, files)) { announce($0.lines) }
      return CommandResult(.good)
    } catch let error as InvalidSettings {
      return CommandResult(.configuration, diagnostics: error.errors.lines)
    } catch {
      return CommandResult(.configuration, diagnostics: ["\(error)"])
    }
  }
}

extension Application.Addresses {
  /// One for each listener.
  var lines: [String] {
    `public`.map { "Listening on \(url($0))" } + admin.map { "Admin on http://\($0)" }
  }

  /// `https://127.0.0.1:8080`, or `unix:/run/server.sock`.
  func url(_ address: SocketAddress) -> String {
    guard case .ip = address else { return "\(address)" }
    return "\(isSecure ? "https" : "http")://\(address)"
  }
}

/// What a command has to say, and with which status it ends.
public struct CommandResult: Sendable, Equatable {
  /// The exit statuses of the program (sysexits.h has the last two).
  public enum Status: Int32, Sendable {
    /// All is well.
    case good = 0
    /// What was checked is not as it should be.
    case failed = 1
    /// The command line is wrong.
    case usage = 64
    /// The configuration is wrong.
    case configuration = 78
  }

  /// How the program ends.
  public var status: Status
  /// Lines for standard output: what was asked for, and nothing else.
  public var output: [String]
  /// Lines for standard error: diagnostics, a sentence each.
  public var diagnostics: [String]

  /// A result as given.
  public init(_ status: Status, output: [String] = [], diagnostics: [String] = []) {
    self.status = status
    self.output = output
    self.diagnostics = diagnostics
  }
}

/// Writes JSON (RFC 8259) whose members stay in the order in which they are given.
enum JSONText {
  /// A string, quoted; what is not printable ASCII is escaped, so that the text is safe on any terminal.
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

  /// An array of values that are JSON already.
  static func array(_ values: [String]) -> String {
    "[" + values.joined(separator: ",") + "]"
  }

  /// An object of members whose values are JSON already; one without a value is left out.
  static func object(_ members: [(name: String, value: String?)]) -> String {
    "{" + members.compactMap { member in member.value.map { "\(string(member.name)):\($0)" } }.joined(separator: ",")
      + "}"
  }
}
