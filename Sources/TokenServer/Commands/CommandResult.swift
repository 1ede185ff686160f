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
