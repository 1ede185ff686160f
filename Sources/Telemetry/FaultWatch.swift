/// Decides what of a file's troubles is worth telling: that they begin, and that they are over, but not ten times a
/// second. A value: errors and the time in, notices out.
struct FaultWatch {
  private let path: String
  private var isTold = false
  private var lostLines = 0
  private var quietUntil: UInt64 = 0

  /// The least time between two notices of failure, in nanoseconds.
  static let pause: UInt64 = 10_000_000_000

  init(path: String) {
    self.path = path
  }

  /// Learns how a batch of lines went.
  ///
  /// - Parameters:
  ///   - error: An error number, or 0.
  ///   - now: In nanoseconds of a clock that does not go back.
  mutating func note(error: Int32, lostLines lost: Int, now: UInt64) -> AuditFileNotice? {
    lostLines += lost
    if error != 0 {
      guard !isTold, now >= quietUntil else { return nil }
      isTold = true
      quietUntil = now + Self.pause
      return .failing(AuditFileError(path: path, code: error))
    }
    guard isTold else { return nil }
    isTold = false
    defer { lostLines = 0 }
    return .recovered(path: path, lostLines: lostLines)
  }
}
