/// Settings that a server cannot start with. It contains every error at once, so that an operator can fix all of them
/// before the next start.
public struct InvalidSettings: Error, Sendable, CustomStringConvertible {
  /// At least one.
  public let faults: [SettingsFault]
  /// What is odd but harmless.
  public let warnings: [String]

  /// The faults, one a line.
  public var description: String { faults.lines.joined(separator: "\n") }
}
