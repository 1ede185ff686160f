public import DeveloperToken
import EventLoop

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
      let (input, warnings) = (input, findings.map(\.description))
      let load: Reloader.Load = {
        let loaded = try Settings.load(input)
        let key = try loaded.settings.musickit.loadKey()
        return Generation.Source(settings: loaded.settings, key: key, warnings: loaded.warnings)
      }
      var source = try load()
      source.warnings += warnings
      try ServerProcess(source).run(load: load) { announce($0.lines) }
      return CommandResult(.good)
    } catch let error as InvalidSettings {
      return CommandResult(.configuration, diagnostics: error.faults.lines)
    } catch {
      return CommandResult(.configuration, diagnostics: ["\(error)"])
    }
  }
}

extension ServerProcess.Addresses {
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
