import DequeModule
package import HTTPMessages
package import HTTPTypes

/// Decides which requests are sent again, and when. A 5xx is never retried, because it is a response of Apple.
package enum RetryPolicy {
  package enum Decision: Sendable, Equatable {
    /// Send the request again after a pause, on another connection if this one failed.
    case retry(after: Duration)
    /// The same, after a failure of the network or the upstream. After another such failure, the request fails.
    case retryOnce(after: Duration)
    case giveUp
  }

  /// The most attempts at a request that is refused with 429: 5. The pacer refuses one that would be sent too late.
  static let mostLimited = 5
  /// The pause before another attempt to connect: 250 ms. A restarting upstream needs a moment.
  static let reconnectPause: Duration = .milliseconds(250)
  /// The most attempts at a request that provably was not processed: 10. An upstream that sends GOAWAY after every
  /// hundred requests, with half as many in flight, rejects a third of them, and a few of them many times.
  static let mostUnprocessed = 10
  /// The free attempts among these: 3. The budget pays for others, so that an upstream that rejects all gets few more.
  static let freeUnprocessed = 3

  /// Decides whether to retry, and withdraws the cost from the budget.
  ///
  /// - Parameter random: Spreads the pauses of concurrent retries by a fifth in either direction.
  package static func decision(
    after attempt: Attempt, budget: inout RetryBudget, using random: inout some RandomNumberGenerator
  ) -> Decision {
    guard let retry = retry(after: attempt, using: &random), retry.pause < attempt.timeLeft else { return .giveUp }
    guard retry.isFree || budget.withdraw(for: attempt.brokenConnection) else { return .giveUp }
    return retry.isOnly ? .retryOnce(after: retry.pause) : .retry(after: retry.pause)
  }

  /// `isOnly`: a request has one retry of this kind.
  private typealias Retry = (pause: Duration, isFree: Bool, isOnly: Bool)

  private static func retry(after attempt: Attempt, using random: inout some RandomNumberGenerator) -> Retry? {
    guard !attempt.hasReadContent else { return nil }
    switch attempt.ending {
    case .limited:
      // The retry costs Apple no more than another request in its turn, so it needs no budget.
      let isSafe = attempt.method == .get || attempt.method == .head
      return isSafe && attempt.number < mostLimited ? (.zero, true, false) : nil
    case .failed(let error):
      switch error.progress {
      case .unprocessed: return retry(unprocessed: error.cause, attempt, using: &random)
      case .unanswered: return retry(unanswered: error.cause, attempt)
      case .answered: return nil
      }
    }
  }

  /// Returns the retry of a request that provably did not reach Apple. Any method may be sent again (RFC 9110 §9.2.2,
  /// RFC 9113 §8.7), at once, because the connection was closed or closing (GOAWAY). The first retries are free: they cost
  /// Apple nothing, and a closing connection must not lose its hundred requests. After a failed connect, one is enough.
  private static func retry(
    unprocessed cause: UpstreamError.Cause, _ attempt: Attempt, using random: inout some RandomNumberGenerator
  ) -> Retry? {
    switch cause {
    case .connectionTerminated, .connectionReadTimeout, .connectionWriteTimeout, .responseIncomplete:
      attempt.number < mostUnprocessed ? (.zero, attempt.number < freeUnprocessed, false) : nil
    case .dnsError, .connectionRefused, .destinationUnavailable, .destinationIPUnroutable, .protocolError,
      .tlsProtocolError, .tlsAlertReceived:
      attempt.hasFailed ? nil : (reconnectPause * Int.random(in: 800...1200, using: &random) / 1000, false, true)
    case .dnsTimeout, .connectionTimeout, .connectionLimitReached, .tlsCertificateError, .responseHeaderSectionSize,
      .responseTimeout, .proxyInternalError, .cancelled:
      nil
    }
  }

  /// Returns the retry of a request that may have reached Apple. A GET or HEAD is retried once if the connection broke,
  /// but not after a timeout. All requests of one broken connection are paid for together.
  private static func retry(unanswered cause: UpstreamError.Cause, _ attempt: Attempt) -> Retry? {
    guard attempt.method == .get || attempt.method == .head, !attempt.hasFailed else { return nil }
    switch cause {
    case .connectionTerminated, .protocolError, .tlsProtocolError, .tlsAlertReceived, .responseIncomplete:
      return (.zero, false, true)
    default: return nil
    }
  }
}

/// The budget for retries of the process, which keeps them from making an outage worse.
///
/// Every request adds a tenth of a retry, and every success another tenth. Each retry costs one. So over any time there
/// are at most 1.2 attempts per request, and 1.1 while everything fails, plus the initial and the saved retries.
///
/// A connection that breaks fails all its requests at once. That is one event and costs one retry, however many of its
/// requests are sent again. Each of them is retried only once, and the circuit opens when connections break repeatedly.
package struct RetryBudget: Sendable {
  /// The initial number of retries: 10. So a server with little traffic can also retry.
  static let initial = 10
  /// The most saved retries: 400, as many as can be in flight (``ConcurrencyLimits/maximum``) and then fail at once.
  static let capacity = 400
  /// The available amount, in tenths of a retry.
  private var tenths = initial * 10
  /// The last connections that have been paid for.
  private var paid: Deque<UInt64> = []
  /// The number of connections in `paid`: 64. It exceeds the number that break at once if each loop has four.
  private static let remembered = 64

  package init() {}

  var available: Int { tenths / 10 }

  /// Adds a tenth, for a new request, not for its retries, or for a request that succeeded.
  package mutating func earn() { tenths = min(tenths + 1, Self.capacity * 10) }

  /// Withdraws the cost of a retry. Returns false if too little is left.
  ///
  /// - Parameter connection: The broken connection. Only the first retry that it causes is charged.
  package mutating func withdraw(for connection: UInt64? = nil) -> Bool {
    if let connection, paid.contains(connection) { return true }
    guard tenths >= 10 else { return false }
    tenths -= 10
    if let connection {
      if paid.count == Self.remembered { paid.removeFirst() }
      paid.append(connection)
    }
    return true
  }
}

/// An attempt at a request that failed or was refused.
package struct Attempt: Sendable {
  package enum Ending: Sendable {
    /// The attempt failed without a complete response.
    case failed(UpstreamError)
    case limited
  }

  var method: HTTPRequest.Method
  var ending: Ending
  /// The first is 1.
  var number: Int
  /// Whether an earlier attempt has failed, other than by a connection that was closing, or by a 429.
  package var hasFailed = false
  /// The time left until the caller's deadline.
  var timeLeft: Duration
  /// Whether the request has content that was partly read, so that it cannot be sent again.
  package var hasReadContent = false

  package init(_ method: HTTPRequest.Method, _ ending: Ending, number: Int, timeLeft: Duration) {
    (self.method, self.ending, self.number, self.timeLeft) = (method, ending, number, timeLeft)
  }

  /// The connection that broke and failed several requests. Nil if the request failed alone.
  var brokenConnection: UInt64? { if case .failed(let error) = ending { error.connection } else { nil } }
}
