import Access
import EventLoop
import Logging
import Telemetry

/// What access control keeps for the life of the process, while policies come and go: how often everybody has asked, the
/// keys of identity providers, the record, and the counts.
final class AccessService: Sendable {
  let limiter = RateLimiter()
  let tally = AccessTally()
  let keySets: KeySets
  /// Nil if there is no file for it, and the log is not to have lines of its level.
  let audit: AuditLog?

  /// Throws a sentence when the file for the record cannot be written.
  init(_ settings: Settings.Audit, loops: [EventLoop], sink: LogSink, logger: Logger) throws {
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
}
