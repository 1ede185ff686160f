public import HTTPMessages
public import HTTPTypes

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

/// What the process may spend on asking again: keeps an outage from being made worse by those who try to get over it.
///
/// Every request brings a tenth of a retry, every success another tenth; each retry costs one. So over any time at most
/// 1.2 attempts are made a request, and 1.1 while everything fails, beside the few that are there to begin with and those
/// saved while all went well.
///
/// A connection that breaks fails all requests on it at once. That is one event and costs one retry, however many of
/// them are sent again: each only once, and the circuit opens when connections break repeatedly.
public struct RetryBudget: Sendable {
  /// Retries that are there to begin with: 10. A server that is hardly used can retry as well as a busy one.
  public static let initial = 10

  /// Retries that can be saved: 400, as many as can be under way (``ConcurrencyLimits/maximum``) and then break off at
  /// once.
  public static let capacity = 400

  /// In tenths of a retry.
  private var tenths = initial * 10
  /// The connections whose end was paid for last.
  private var paid: [UInt64] = []

  /// How many connections are remembered: 64. More than break at once where each loop has four.
  private static let remembered = 64

  /// As at the start.
  public init() {}

  /// Retries that can be made now.
  public var available: Int { tenths / 10 }

  /// A request begins. Call once, not for its retries.
  public mutating func requested() {
    save()
  }

  /// A request succeeded.
  public mutating func succeeded() {
    save()
  }

  /// Pays for a retry; false if there is nothing left.
  /// - Parameter connection: The connection whose end is the reason; its other requests have paid for this one.
  public mutating func withdraw(for connection: UInt64? = nil) -> Bool {
    if let connection, paid.contains(connection) { return true }
    guard tenths >= 10 else { return false }
    tenths -= 10
    if let connection {
      if paid.count == Self.remembered { paid.removeFirst() }
      paid.append(connection)
    }
    return true
  }

  private mutating func save() {
    tenths = min(tenths + 1, Self.capacity * 10)
  }
}

/// An attempt at a request that had no good end.
public struct Attempt: Sendable {
  /// How it ended.
  public enum Ending: Sendable {
    /// There is no response.
    case failed(UpstreamError)
    /// A response with 429, and the seconds that its `Retry-After` names, if any.
    case limited(retryAfter: Duration?)
  }

  /// The request's method.
  public var method: HTTPRequest.Method
  /// How it ended.
  public var ending: Ending
  /// Which attempt at the request it was: 1 for the first.
  public var number: Int
  /// What is left of the time that the caller gives the request.
  public var timeLeft: Duration
  /// Whether content went along, and has been read in part: it cannot be sent again.
  public var hasReadContent = false

  /// An attempt.
  public init(_ method: HTTPRequest.Method, _ ending: Ending, number: Int, timeLeft: Duration) {
    self.method = method
    self.ending = ending
    self.number = number
    self.timeLeft = timeLeft
  }

  /// The connection whose end failed it together with others; nil if it failed by itself.
  var brokenConnection: UInt64? {
    if case .failed(let error) = ending { error.connection } else { nil }
  }
}
