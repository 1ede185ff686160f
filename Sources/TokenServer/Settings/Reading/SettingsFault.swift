/// One thing that is wrong with the settings.
///
/// A fault quotes short values so that they can be found again, but never anything of `musickit.key` and nothing that
/// looks like key material in any other place.
public struct SettingsFault: Sendable, Equatable, CustomStringConvertible {
  /// The setting's path, such as `server.limits.idle`; the whole file's is empty.
  public let path: String
  /// Where it was written; nil if it is missing.
  public let source: SettingSource?
  /// What is wrong: `is not set`.
  public let problem: String
  /// What would be right: `write a whole number from 0 to 65535`; nil if the problem is sentences that say it.
  public let remedy: String?

  /// A fault at `path`.
  public init(_ path: String, source: SettingSource? = nil, problem: String, remedy: String? = nil) {
    self.path = path
    self.source = source
    self.problem = problem
    self.remedy = remedy
  }

  /// The fault on one line.
  public var description: String {
    let place = path.isEmpty ? source.map { "\($0)" } ?? "" : path + (source.map { " (\($0))" } ?? "")
    return "\(place): \(InvalidValue(problem: problem, remedy: remedy))"
  }
}

extension [SettingsFault] {
  /// One line for each error up to a readable number, and then one line with the number of the others.
  var lines: [String] {
    let most = 100
    let rest = count - most
    return prefix(most).map(\.description)
      + (rest > 0 ? [rest == 1 ? "There is 1 more fault." : "There are \(rest) more faults."] : [])
  }
}
