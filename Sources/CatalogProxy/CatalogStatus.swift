public import HTTPCache
public import HTTPMessages
public import UpstreamAdmission

/// Hears of what the operator should know. Called on an event loop: it must not block.
public protocol CatalogObserver: Sendable {
  /// Something happened.
  func noticed(_ notice: CatalogNotice)
}

/// Something about the upstream that the operator should know. There is no secret in it.
public enum CatalogNotice: Sendable {
  /// Apple refuses the developer token, and also a fresh one. A sentence says the likely reason.
  case tokenRejected(TokenRejection)
  /// Apple takes our tokens again.
  case tokenAccepted
  /// No developer token can be made; a sentence says why.
  case tokenFailed(String)
  /// The head of a response came, so long after the attempt began.
  case responded(after: Duration)
  /// An exchange failed; a sentence says how.
  case exchangeFailed(UpstreamError)
  /// The upstream answered 5xx.
  case upstreamStatus(Int)
  /// The upstream answered 429: the team's quota is used up for the moment.
  ///
  /// - Parameter rate: The estimated rate that the quota allows, in requests a second.
  case limited(rate: Double)
  /// The upstream has failed repeatedly, and is asked only now and then.
  case circuitOpened
  /// The upstream is back.
  case circuitClosed
}

/// How the proxy is at a moment.
public struct CatalogStatus: Sendable {
  /// Apple refuses our developer token.
  public let isTokenRejected: Bool
  /// The upstream has failed repeatedly and is not asked for now.
  public let isCircuitOpen: Bool
  /// How many requests may be at the upstream at once.
  public let limit: Int
  /// How many are.
  public let inFlight: Int
  /// How many wait for their turn.
  public let waiting: Int
  /// Seconds by which the upstream's clock is ahead, as little as its latest responses allow.
  public let clockSkew: Int
  /// The requests a second that Apple's quota allows, estimated from 429s; nil before the first one.
  public let rate: Double?
  /// Whether nothing is sent for a moment, after a 429.
  public let isPaused: Bool
  /// 429s of the last minute.
  public let recentRefusals: Int
  /// Sums since the start.
  public let counts: CatalogCounts
  /// The same for each client that has sent anything, by its id in the settings.
  public let clients: [String: ClientCounts]
  /// What the cache holds.
  public let cache: CacheStatistics

  /// The part of the limit that is in use, from 0 to 1; a limit that has just fallen may be exceeded.
  public var saturation: Double { limit > 0 ? min(Double(inFlight) / Double(limit), 1) : 1 }
}

/// What has happened since the start.
public struct CatalogCounts: Sendable, Equatable {
  /// Requests sent to the upstream, retries among them.
  public var attempts = 0
  /// Attempts behind the first one of a request.
  public var retries = 0
  /// 401 to a developer token.
  public var tokenRejections = 0
  /// Developer tokens minted for the upstream.
  public var tokensMinted = 0
  /// 429.
  public var limited = 0
  /// 5xx, and exchanges that failed.
  public var failures = 0
  /// Responses from the cache, fresh or stale.
  public var hits = 0
  /// Cacheable requests that the cache could not answer.
  public var misses = 0
  /// Requests that shared another's response.
  public var collapsed = 0
  /// Stale responses in place of a failure.
  public var staleOnError = 0
  /// Stale responses because the upstream took long.
  public var staleWhileWaiting = 0
}

/// What a client has cost the team since the start.
public struct ClientCounts: Sendable, Equatable {
  /// Its requests that were sent to the upstream, retries among them.
  public var attempts = 0
  /// 429 to those.
  public var limited = 0
}

/// 429s of the last minute, to ten seconds.
struct RecentRefusals: Sendable {
  private static let slots = 6
  private var counts = [Int](repeating: 0, count: slots)
  private var newest: Int64 = 0

  mutating func record(now: Duration) {
    advance(to: now)
    counts[Int(newest % Int64(Self.slots))] += 1
  }

  mutating func count(now: Duration) -> Int {
    advance(to: now)
    return counts.reduce(0, +)
  }

  private mutating func advance(to now: Duration) {
    let slot = now.components.seconds / 10
    guard slot > newest else { return }
    for stale in max(newest + 1, slot - Int64(Self.slots) + 1)...slot { counts[Int(stale % Int64(Self.slots))] = 0 }
    newest = slot
  }
}
