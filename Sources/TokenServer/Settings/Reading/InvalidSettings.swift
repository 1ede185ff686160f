/// Settings that a server cannot start with: every fault at once, so that nobody has to mend them one start at a time.
public struct InvalidSettings: Error, Sendable, CustomStringConvertible {
  /// At least one.
  public let faults: [SettingsFault]
  /// What is odd but harmless.
  public let warnings: [String]

  /// The faults, one a line.
  public var description: String { faults.lines.joined(separator: "\n") }
}
