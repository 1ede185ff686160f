import Access
import Bytes
import DeveloperToken
import EventLoop
import Locks
import Logging
import ServerSettings
import Telemetry

/// The part of access control that lasts as long as the process, across changes of the policy: the rates of callers,
/// the keys of identity providers, the audit log, and the counts.
final class AccessService: Sendable {
  let limiter: RateLimiter
  /// The rates that all replicas share, whose store decides about strict clients; nil if this process counts alone.
  let sharedRates: GroupRates?
  /// The limits of explanations and of inspected tokens, apart from those of callers.
  let explanations = RateLimiter()
  /// The limit of verified developer tokens of callers.
  let verifications = RateLimiter()
  let tally = Locked(AccessTally())
  let keySets: KeySets
  let audit: AuditLog
  private let sink: LogSink
  private let logger: Logger
  private let throttle: Throttle
  /// The clients whose API keys the log has called weak.
  private let weak = Locked<Set<ByteString>>([])

  /// Opens the audit log, which may keep the last records in memory. Throws a sentence if its file cannot be written.
  init(
    _ settings: Settings.Audit, rates: GroupRates? = nil, keepsRecent: Bool = false, loops: [IOLoop], sink: LogSink,
    logger: Logger
  ) throws {
    (self.sink, self.logger, throttle) = (sink, logger, Throttle(logger))
    limiter = rates?.rates ?? RateLimiter()
    sharedRates = rates
    keySets = KeySets(loops: loops, context: KeySetContext(logger: logger))
    audit =
      if let file = settings.file {
        try AuditLog(file: file, isRequired: settings.isRequired, keepsRecent: keepsRecent) { logger.warning("\($0)") }
      } else {
        AuditLog(onto: sink, isRequired: settings.isRequired, keepsRecent: keepsRecent)
      }
  }

  /// Uses the key sets, the clients and the log's lines of a generation from now on.
  func use(_ snapshot: RuntimeSnapshot) {
    sink.filter.set(level: snapshot.settings.log.level, access: snapshot.settings.log.access)
    keySets.use(snapshot.gate.keys)
    tally.withLock { $0.expect(snapshot.settings.access.clients.map(\.id)) }
  }

  /// Logs that a client has an API key that a program can guess: once for each of the first thousand clients.
  func warn(ofWeakKeyOf client: String) {
    guard weak.withLock({ $0.count < 1000 && $0.insert(ByteString(client)).inserted }) else { return }
    logger.warning(
      """
      An API key of client \(client) has fewer than \(APIKeyForm.leastBytes) characters. The limit of failed attempts \
      does not keep a program from guessing it; make another with new-api-key.
      """)
  }

  /// Logs that no token could be minted for an entitled caller, at a limited rate.
  func warn(ofFailedToken error: TokenError) {
    throttle.log("token", at: .error, "The server cannot make a developer token. \(error)")
  }
}
