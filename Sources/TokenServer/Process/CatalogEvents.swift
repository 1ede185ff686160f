import CatalogProxy
import Logging

/// Counts what happens with the upstream, and writes it into the log, but not as often as it happens.
struct CatalogEvents: CatalogObserver {
  private let logger: Logger
  private let throttle = Throttle()
  private let tally: UpstreamTally

  init(logger: Logger, tally: UpstreamTally = UpstreamTally()) {
    self.logger = logger
    self.tally = tally
  }

  func noticed(_ notice: CatalogNotice) {
    tally.count(notice)
    switch notice {
    case .responded: break
    case .tokenRejected(let rejection): warn("tokenRejected", .error, "\(rejection)")
    case .tokenAccepted:
      if throttle.end("tokenRejected") { logger.notice("Apple Music takes this server's developer tokens again.") }
    case .tokenFailed(let reason): warn("tokenFailed", .error, "No developer token can be made. \(reason)")
    case .exchangeFailed(let error): warn("exchangeFailed", .warning, "\(error)")
    case .upstreamStatus(let status): warn("upstreamStatus", .warning, "Apple Music answered with status \(status).")
    case .limited(let rate):
      let pace = rate.paceText
      warn("limited", .warning, "Apple Music limits the team's requests. About \(pace) a second are sent for now.")
    case .circuitOpened:
      warn(
        "circuitOpened", .warning,
        "Apple Music has failed repeatedly, and is asked only now and then until it answers again.")
    case .circuitClosed: if throttle.end("circuitOpened") { logger.notice("Apple Music answers again.") }
    }
  }

  private func warn(_ kind: String, _ level: Logger.Level, _ sentence: String) {
    guard let suppressed = throttle.admit(kind) else { return }
    logger.log(level: level, "\(sentence)", metadata: suppressed > 0 ? ["suppressed": "\(suppressed)"] : [:])
  }
}

extension Double {
  /// A number of requests a second, to a tenth.
  var paceText: String {
    let tenths = Int(Swift.min(Swift.max(self, 0), 1e9) * 10)
    return tenths >= 100 || tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
  }
}
