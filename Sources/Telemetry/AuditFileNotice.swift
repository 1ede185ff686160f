/// What an operator should know of the audit file.
public enum AuditFileNotice: Sendable, Equatable, CustomStringConvertible {
  /// It cannot be written.
  case failing(AuditFileError)
  /// It can again; so many records were lost since the last time that it was said.
  case recovered(path: String, lostLines: Int)

  /// A sentence for the log.
  public var description: String {
    switch self {
    case .failing(let error): "\(error)"
    case .recovered(let path, let lostLines):
      "The audit file '\(path)' can be written again; records lost: \(lostLines)."
    }
  }
}
