package import HTTPCache
package import HTTPMessages
package import HTTPTypes
package import Tracing
package import UpstreamAdmission

/// Receives events for the operator. The gateway calls it on an event loop, or where a token is minted, so it must not
/// block.
package protocol CatalogObserver: Sendable {
  func noticed(_ notice: CatalogNotice)
}

/// An event about the upstream that the operator should know. It contains no secret.
package enum CatalogNotice: Sendable {
  /// Apple refuses the developer token, and also a fresh one. `keyID`: the key that signed it, if the source tells.
  case tokenRejected(TokenRejection, keyID: String?)
  /// Apple accepts the developer tokens again.
  case tokenAccepted
  /// Minting a developer token failed. The sentence gives the reason.
  case tokenFailed(String)
  /// The head of a response arrived, this long after the attempt began.
  case responded(after: Duration)
  /// A sampled attempt ended, with the head of a response or without one.
  case attempted(UpstreamAttempt)
  case exchangeFailed(UpstreamError)
  /// The upstream responded with 5xx, or with a 206 or 304 that the request does not allow.
  case upstreamStatus(Int)
  /// The upstream responded with 429: the quota of the team is used up for the moment. `rate`: what the quota is thought to
  /// allow, in requests per second; nil if the replicas have not learned it yet.
  case limited(rate: Double?)
  /// The upstream failed repeatedly, or a probe failed. Only probes reach the upstream now.
  case circuitOpened
  case circuitClosed
}

/// One request to the upstream, for its span.
package struct UpstreamAttempt: Sendable {
  package enum Result: Sendable {
    /// The status of the response, and its HTTP version in the form for `Via`.
    case status(Int, StaticString)
    /// There was no response.
    case failure(UpstreamError.Cause)

    init(_ result: Swift.Result<UpstreamResponse, UpstreamError>) {
      switch result {
      case .success(let response): self = .status(response.status.code, response.version)
      case .failure(let error): self = .failure(error.cause)
      }
    }
  }

  package let span: SpanContext
  /// The server's span, which caused it.
  package let parent: SpanID
  package let method: HTTPRequest.Method
  /// The template of the path.
  package let route: StaticString
  /// The id of the client that the quota is charged to; nil if it is charged to none.
  package let client: String?
  /// The number of earlier attempts for the same request.
  package let resends: Int
  /// The time until the head of the response, or until the failure.
  package let duration: Duration
  package let result: Result
}

/// The state of the proxy at one moment.
package struct CatalogStatus: Sendable {
  /// Whether Apple refuses the developer token.
  package let isTokenRejected: Bool
  /// The time at which Apple last accepted a token of the key in use, in seconds since 1970. Nil if it has not yet.
  package let tokenAcceptedAt: Int?
  package let isCircuitOpen: Bool
  /// The maximum number of requests in flight at the upstream.
  package let limit: Int
  package let inFlight: Int
  package let waiting: Int
  /// The seconds by which the upstream's clock is ahead: the smallest skew that its latest responses allow.
  package let clockSkew: Int
  /// The rate that Apple's quota allows, in requests per second, estimated from 429s. Nil before the first 429.
  package let rate: Double?
  /// Whether the server sends nothing for a moment after a 429.
  package let isPaused: Bool
  /// The number of 429s in the last minute.
  package let recentRefusals: Int
  package let counts: CatalogCounts
  /// The counts since the start for each client that has sent a request, by its id in the settings.
  package let clients: [String: ClientCounts]
  package let cache: CacheStatistics

  /// The part of the limit that is in use, from 0 to 1. It is 1 also while a limit that has just fallen is exceeded.
  package var saturation: Double { limit > 0 ? min(Double(inFlight) / Double(limit), 1) : 1 }
}

/// Counts of events since the start.
package struct CatalogCounts: Sendable, Equatable {
  /// Requests sent to the upstream, including retries.
  package var attempts = 0
  /// Attempts after the first attempt of a request.
  package var retries = 0
  /// Responses with 401 to a developer token.
  package var tokenRejections = 0
  package var tokensMinted = 0
  package var limited = 0
  /// Responses with 5xx, or with a 206 or 304 that the request does not allow, and failed exchanges.
  package var failures = 0
  /// Cacheable requests for which the cache had no response.
  package var misses = 0
  /// Requests that shared the response to another request.
  package var collapsed = 0
  /// Stale responses in place of a failure.
  package var staleOnError = 0
  /// Stale responses because the upstream took long.
  package var staleWhileWaiting = 0
}
