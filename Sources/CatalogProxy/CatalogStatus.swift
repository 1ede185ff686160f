public import HTTPCache
public import HTTPMessages
public import HTTPTypes
public import Tracing
public import UpstreamAdmission

/// Receives events for the operator. The gateway calls it on an event loop, so it must not block.
public protocol CatalogObserver: Sendable {
  func noticed(_ notice: CatalogNotice)
}

/// An event about the upstream that the operator should know. It contains no secret.
public enum CatalogNotice: Sendable {
  /// Apple refuses the developer token, and also a fresh one. The rejection describes the likely reason.
  ///
  /// - Parameter keyID: The ID of the key that signed the token; nil if the source of tokens does not tell.
  case tokenRejected(TokenRejection, keyID: String?)
  /// Apple accepts the developer tokens again.
  case tokenAccepted
  /// Minting a developer token failed. The sentence gives the reason.
  case tokenFailed(String)
  /// The head of a response arrived, this long after the attempt began.
  case responded(after: Duration)
  /// A sampled attempt ended, with the head of a response or without one.
  case attempted(UpstreamAttempt)
  /// An exchange failed. The error describes how.
  case exchangeFailed(UpstreamError)
  /// The upstream responded with 5xx, or with a 206 or 304 that the request does not allow.
  case upstreamStatus(Int)
  /// The upstream responded with 429: the quota of the team is used up for the moment.
  ///
  /// - Parameter rate: The estimated rate that the quota allows, in requests per second. Nil if the replicas have not
  ///   learned it yet.
  case limited(rate: Double?)
  /// The circuit opened because the upstream failed repeatedly, or a probe failed. Only probes reach the upstream now.
  case circuitOpened
  /// The circuit closed: the upstream works again.
  case circuitClosed
}

/// One request to the upstream, for its span.
public struct UpstreamAttempt: Sendable {
  /// The result of an attempt.
  public enum Result: Sendable {
    /// The status of the response, and its HTTP version in the form for `Via`.
    case status(Int, StaticString)
    /// There was no response.
    case failure(UpstreamError.Cause)
  }

  /// The span of the attempt.
  public let span: SpanContext
  /// The server's span, which caused it.
  public let parent: SpanID
  /// The method.
  public let method: HTTPRequest.Method
  /// The template of the path.
  public let route: StaticString
  /// The id of the client that the quota is charged to; nil if it is charged to none.
  public let client: String?
  /// The number of earlier attempts for the same request.
  public let resends: Int
  /// The time until the head of the response, or until the failure.
  public let duration: Duration
  /// The result.
  public let result: Result
}

/// The state of the proxy at one moment.
public struct CatalogStatus: Sendable {
  /// Whether Apple refuses the developer token.
  public let isTokenRejected: Bool
  /// The time at which Apple last accepted a token of the key in use, in seconds since 1970. Nil if it has not yet.
  public let tokenAcceptedAt: Int?
  /// Whether the circuit is open, because the upstream failed repeatedly.
  public let isCircuitOpen: Bool
  /// The maximum number of requests in flight at the upstream.
  public let limit: Int
  /// The number of requests in flight at the upstream.
  public let inFlight: Int
  /// The number of requests that wait for a turn.
  public let waiting: Int
  /// The seconds by which the upstream's clock is ahead: the smallest skew that its latest responses allow.
  public let clockSkew: Int
  /// The rate that Apple's quota allows, in requests per second, estimated from 429s. Nil before the first 429.
  public let rate: Double?
  /// Whether the server sends nothing for a moment after a 429.
  public let isPaused: Bool
  /// The number of 429s in the last minute.
  public let recentRefusals: Int
  /// The counts since the start.
  public let counts: CatalogCounts
  /// The counts since the start for each client that has sent a request, by its id in the settings.
  public let clients: [String: ClientCounts]
  /// The state of the cache.
  public let cache: CacheStatistics

  /// The part of the limit that is in use, from 0 to 1. It is 1 also while a limit that has just fallen is exceeded.
  public var saturation: Double { limit > 0 ? min(Double(inFlight) / Double(limit), 1) : 1 }
}

/// Counts of events since the start.
public struct CatalogCounts: Sendable, Equatable {
  /// Requests sent to the upstream, including retries.
  public var attempts = 0
  /// Attempts after the first attempt of a request.
  public var retries = 0
  /// Responses with 401 to a developer token.
  public var tokenRejections = 0
  /// Developer tokens minted for the upstream.
  public var tokensMinted = 0
  /// Responses with 429.
  public var limited = 0
  /// Responses with 5xx, or with a 206 or 304 that the request does not allow, and failed exchanges.
  public var failures = 0
  /// Cacheable requests for which the cache had no response.
  public var misses = 0
  /// Requests that shared the response to another request.
  public var collapsed = 0
  /// Stale responses in place of a failure.
  public var staleOnError = 0
  /// Stale responses because the upstream took long.
  public var staleWhileWaiting = 0
}

/// A counter of the 429s in the last minute, with a resolution of ten seconds.
struct RecentRefusals: Sendable {
  private var counts = RollingCounts(slots: 6)

  mutating func record(now: Duration) { counts.add(in: Self.slot(now)) }

  func count(now: Duration) -> Int { counts.sum(from: Self.slot(now) - 5, through: Self.slot(now)) }

  private static func slot(_ time: Duration) -> Int { Int(time.components.seconds / 10) }
}
