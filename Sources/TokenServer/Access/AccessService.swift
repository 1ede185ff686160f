import Access
import DeveloperToken
import EventLoop
import Logging
import ServerSettings
import Telemetry

/// What access control keeps for the life of the process, even when the policy changes: the rates of callers, the keys
/// of identity providers, the audit log, and the counts.
final class AccessService: Sendable {
  let limiter = RateLimiter()
  let tally = AccessTally()
  let keySets: KeySets
  /// Nil if there is no file for it, and the log is not to have lines of its level.
  let audit: AuditLog?
  private let logger: Logger
  private let throttle = Throttle()

  /// Throws a sentence if the server cannot write the file of the audit log.
  init(_ settings: Settings.Audit, loops: [IOLoop], sink: LogSink, logger: Logger) throws {
    self.logger = logger
    keySets = KeySets(loops: loops, logger: logger)
    audit =
      if let file = settings.file {
        try AuditLog(file: file) { notice in logger.warning("\(notice)") }
      } else if logger.logLevel <= .info {
        AuditLog(onto: sink)
      } else {
        nil
      }
  }

  /// Says in the log that a caller got no token although it may have one, but not for each caller.
  func warn(ofFailedToken error: TokenError) {
    guard let suppressed = throttle.admit("token") else { return }
    logger.error(
      "No developer token can be made. \(error)", metadata: suppressed > 0 ? ["suppressed": "\(suppressed)"] : [:])
  }
}
