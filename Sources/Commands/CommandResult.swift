package import ArgumentParser
import Glibc
import ServerSettings
import TokenServer

package struct CommandResult: Sendable, Equatable {
  /// The exit statuses of the program. The last three are from sysexits.h.
  package enum Status: Int32, Sendable {
    case good = 0
    case failed = 1
    case usage = 64
    /// A later start may succeed with the same settings: the address is taken, or the machine does not have it yet.
    case temporary = 75
    case configuration = 78
  }

  package var status: Status
  /// The lines for standard output: only the requested result.
  package var output: [String]
  package var diagnostics: [String]
  /// The lines for standard error that explain the output. They mean nothing without it.
  package var explanation: [String]

  package init(_ status: Status, output: [String] = [], diagnostics: [String] = [], explanation: [String] = []) {
    (self.status, self.output) = (status, output)
    (self.diagnostics, self.explanation) = (diagnostics, explanation)
  }

  /// Creates the result of a command that an error ended, with `status` if the error does not tell it.
  init(_ error: any Error, otherwise status: Status) {
    switch error {
    case let error as CommandError: self.init(error.status, diagnostics: [error.description])
    case let error as InvalidSettings:
      self.init(.configuration, diagnostics: error.errors.lines + error.warnings.map { "Warning: \($0)" })
    case let error as StartError where error.isTemporary: self.init(.temporary, diagnostics: [error.description])
    default: self.init(status, diagnostics: ["\(error)"])
    }
  }

  /// Prints the output and the diagnostics. Throws unless the status is good and the output was written.
  package func finish() throws(ExitCode) {
    let failure = Self.print(output, to: STDOUT_FILENO).map { code in
      "The program cannot write to standard output: \(unsafe String(cString: strerror(code)))."
    }
    Self.print(diagnostics + (failure.map { [$0] } ?? explanation), to: STDERR_FILENO)
    if status != .good { throw ExitCode(status.rawValue) }
    if failure != nil { throw ExitCode(Status.failed.rawValue) }
  }

  /// Writes lines without a buffer, so that none are lost or out of order. Returns the error that stopped the output.
  @discardableResult package static func print(_ lines: [String], to descriptor: Int32) -> Int32? {
    var rest = Array(lines.map { $0 + "\n" }.joined().utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 || errno == EINTR else { return errno }
      rest = rest.dropFirst(max(count, 0))
    }
    return nil
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

package enum ProgramCommands {
  package static var all: [any ParsableCommand.Type] {
    [
      ServeCommand.self, DemoCommand.self, SandboxCommand.self, MintCommand.self, InspectCommand.self,
      CheckConfigCommand.self, DoctorCommand.self, HealthCheckCommand.self, NewAPIKeyCommand.self,
    ]
  }

  /// The command without arguments.
  package static var usual: any ParsableCommand.Type { ServeCommand.self }

  /// Whether the command runs until a signal ends it.
  package static func serves(_ command: any ParsableCommand) -> Bool {
    command is ServeCommand || command is DemoCommand || command is SandboxCommand
  }
}
