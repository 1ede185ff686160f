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

  /// Pauses after 429s: half a second, then longer. Of 70 refusals that were observed, 68 cleared after 0.5 s and all
  /// within 3.5 s; long back-offs did the damage.
  static let pauses: [Duration] = [.milliseconds(500), .milliseconds(1000), .milliseconds(1500)]

  /// The longest that a request waits for 429s to end, all pauses together: 3.5 s.
  static let longestWait: Duration = .milliseconds(3500)

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
    case .limited(let retryAfter):
      return pause(after: attempt, atLeast: retryAfter ?? .zero, using: &random).map { ($0, false) }
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

  /// The pause after a 429, which is waited out only for what asks, and if there is hope that it will end by then.
  private func pause(
    after attempt: Attempt, atLeast least: Duration, using random: inout some RandomNumberGenerator
  ) -> Duration? {
    guard attempt.method == .get || attempt.method == .head, Self.pauses.indices.contains(attempt.number - 1) else {
      return nil
    }
    let pause = max(spread(Self.pauses[attempt.number - 1], using: &random), least)
    return attempt.sinceLimited + pause <= Self.longestWait ? pause : nil
  }

  private func spread(_ pause: Duration, using random: inout some RandomNumberGenerator) -> Duration {
    pause * Int.random(in: 800...1200, using: &random) / 1000
  }
}
