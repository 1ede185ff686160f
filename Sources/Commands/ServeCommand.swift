public import Cryptography
public import ServerSettings
import TokenServer

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
      let hasAllRecords = try Application.serve(input, findings: findings) { addresses, server in
        let note = "The port is that of the variable PORT, because server.port is not set."
        announce(addresses.lines + (server.isPortOfPlatform ? [note] : []))
      }
      return CommandResult(hasAllRecords ? .good : .failed)
    } catch {
      var result = CommandResult(error, otherwise: .configuration)
      if let error = error as? InvalidSettings { result.diagnostics += hint(about: error.errors) }
      return result
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

  /// Creates the result of a command that an error ended.
  ///
  /// - Parameter status: The status if the error does not tell it.
  init(_ error: any Error, otherwise status: Status) {
    switch error {
    case let error as CommandError: self.init(error.status, diagnostics: [error.description])
    case let error as InvalidSettings:
      self.init(.configuration, diagnostics: error.errors.lines + error.warnings.map { "Warning: \($0)" })
    case let error as StartError where error.isTemporary: self.init(.temporary, diagnostics: [error.description])
    default: self.init(status, diagnostics: ["\(error)"])
    }
  }
}

/// The error that ends a command: a sentence for the operator, and the exit status.
struct CommandError: Error, CustomStringConvertible {
  let status: CommandResult.Status
  let description: String

  init(_ status: CommandResult.Status, _ description: String) {
    (self.status, self.description) = (status, description)
  }
}
