import HTTPMessages
import HTTPTypes

/// Which requests are sent again, and when. 5xx never are: Apple has answered.
public struct RetryPolicy: Sendable {
  /// What to do.
  public enum Decision: Sendable, Equatable {
    /// Send it again after a pause; on another connection if this one failed.
    case retry(after: Duration)
    /// Tell the caller.
    case giveUp
  }

  /// The most attempts at a request that is refused with 429: 5. The pacer decides when each of them goes, and refuses
  /// one that would go too late.
  static let mostLimited = 5

  /// The pause before connecting is tried once more: 250 ms. What restarts needs a moment.
  static let reconnectPause: Duration = .milliseconds(250)

  /// The most attempts at a request that provably was not processed: 10. An upstream that says goodbye after every
  /// hundred requests, with half as many under way, turns away a third of them, and a few of those many times over.
  static let mostUnprocessed = 10

  /// How many of these are free: 3. The others are paid for out of the budget, so that an upstream which turns everything
  /// away is not asked ten times as often.
  static let freeUnprocessed = 3

  /// The policy, which has no state.
  public init() {}

  /// Decides, and pays out of the budget for what was decided.
  ///
  /// - Parameter random: Spreads those who wait for the same thing, by a fifth either way.
  public func decision(
    after attempt: Attempt, budget: inout RetryBudget, using random: inout some RandomNumberGenerator
  ) -> Decision {
    guard let retry = retry(after: attempt, using: &random), retry.pause < attempt.timeLeft else { return .giveUp }
    guard retry.isFree || budget.withdraw(for: attempt.brokenConnection) else { return .giveUp }
    return .retry(after: retry.pause)
  }

  private typealias Retry = (pause: Duration, isFree: Bool)

  private func retry(after attempt: Attempt, using random: inout some RandomNumberGenerator) -> Retry? {
    guard !attempt.hasReadContent else { return nil }
    switch attempt.ending {
    case .limited:
      // It costs Apple no more than another request in its turn, hence no budget.
      let isSafe = attempt.method == .get || attempt.method == .head
      return isSafe && attempt.number < Self.mostLimited ? (.zero, true) : nil
    case .failed(let error):
      switch error.progress {
      case .unprocessed: return retry(unprocessed: error.cause, attempt, using: &random)
      case .unanswered: return retry(unanswered: error.cause, attempt)
      case .answered: return nil
      }
    }
  }

  /// It provably did not reach Apple, so that any method may be sent again (RFC 9110 §9.2.2, RFC 9113 §8.7), and at once:
  /// the connection had gone, or was going (GOAWAY). That costs Apple nothing, hence no budget at first: a connection that
  /// goes takes a hundred requests with it, and none is to be lost. Where connecting itself failed, once more is enough.
  private func retry(
    unprocessed cause: UpstreamError.Cause, _ attempt: Attempt, using random: inout some RandomNumberGenerator
  ) -> Retry? {
    switch cause {
    case .connectionTerminated, .connectionReadTimeout, .connectionWriteTimeout, .responseIncomplete:
      attempt.number < Self.mostUnprocessed ? (.zero, attempt.number < Self.freeUnprocessed) : nil
    case .dnsError, .connectionRefused, .destinationUnavailable, .destinationIPUnroutable, .protocolError,
      .tlsProtocolError, .tlsAlertReceived:
      attempt.number == 1 ? (spread(Self.reconnectPause, using: &random), false) : nil
    case .dnsTimeout, .connectionTimeout, .connectionLimitReached, .tlsCertificateError, .responseHeaderSectionSize,
      .responseTimeout, .proxyInternalError, .cancelled:
      nil
    }
  }

  /// It may have reached Apple. What only asks is asked once more if the connection broke; what took too long is not.
  /// All requests of one broken connection are paid for together.
  private func retry(unanswered cause: UpstreamError.Cause, _ attempt: Attempt) -> Retry? {
    guard attempt.method == .get || attempt.method == .head, attempt.number == 1 else { return nil }
    switch cause {
    case .connectionTerminated, .protocolError, .tlsProtocolError, .tlsAlertReceived, .responseIncomplete:
      return (.zero, false)
    default: return nil
    }
  }

  private func spread(_ pause: Duration, using random: inout some RandomNumberGenerator) -> Duration {
    pause * Int.random(in: 800...1200, using: &random) / 1000
  }
}
