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
