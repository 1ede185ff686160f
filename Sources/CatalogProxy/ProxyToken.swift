import HTTPCache
import HTTPTypes
import Locks
import UpstreamAdmission

/// A developer token for the upstream. It bears no origin, and no caller ever sees it.
public struct ProxyToken: Sendable {
  /// In compact form.
  public let text: String
  /// The field that it is sent in, made once for all requests.
  let credential: HTTPField
  /// When to make another one, in seconds since the epoch.
  public let refreshAt: Int
  /// Which one it is, for the 401 that may come.
  var version: TokenVersion?
  /// When it was made.
  var madeAt: CacheTime?

  /// A token that is good until well after `refreshAt`.
  public init(text: String, refreshAt: Int) {
    self.text = text
    credential = HeaderPolicy.credential(text)
    self.refreshAt = refreshAt
  }

  /// The least step of the wall clock after which a token counts as made by another clock: 5 s. Whole seconds and the
  /// rate that NTP may adjust (500 ppm) make up less between two tokens.
  static let leastClockStep = 5

  /// Whether the wall clock has been set since it was made: then its times are wrong, or were before.
  func isFromAnotherClock(at now: CacheTime) -> Bool {
    madeAt.map { now.wallClockStep(since: $0).magnitude >= Self.leastClockStep } ?? false
  }
}

/// Makes developer tokens for the upstream.
public protocol TokenSource: Sendable {
  /// Mints a token that no other caller has.
  ///
  /// - Parameter now: The time in seconds since the epoch.
  /// - Throws: A sentence.
  func mint(now: Int) throws -> ProxyToken
}

extension CatalogGateway {
  /// Returns the token to send. Mints one if there is no token, if the token is half used up, if a 401 requires a new
  /// one, or if the wall clock was set since. Nil if minting fails.
  ///
  /// Only one event loop mints a token. The others wait for its signature, which takes less time than signing
  /// themselves.
  func currentToken() -> ProxyToken? {
    let now = clock.now
    return usableToken(now: now) ?? minting.withLock { _ in usableToken(now: now) ?? mintToken(now: now) }
  }

  /// The token that is there, if it is the current one and less than half used up.
  private func usableToken(now: CacheTime) -> ProxyToken? {
    withState { state in
      guard let token = state.token, token.version == state.remint.current, now.wall < token.refreshAt,
        !token.isFromAnotherClock(at: now)
      else { return nil }
      return token
    }
  }

  /// Makes the token that is missing. Under `minting`.
  private func mintToken(now: CacheTime) -> ProxyToken? {
    while true {
      let (source, serial, version) = withState { state in
        // Else a 401 has begun another version.
        if state.token == nil || state.token?.version == state.remint.current {
          let isFromAnotherClock = state.token?.isFromAnotherClock(at: now) ?? false
          _ = state.remint.renewed(isUnjudged: state.hasNewKey || isFromAnotherClock)
          state.hasNewKey = false
        }
        return (state.tokens, state.tokensSerial, state.remint.current)
      }
      guard let source else { return nil }
      do {
        var token = try source.mint(now: now.wall)
        (token.version, token.madeAt) = (version, now)
        let made = token
        let isOfPresentKey = withState { state in
          guard state.tokensSerial == serial else { return false }
          state.counts.tokensMinted += 1
          state.token = made
          return true
        }
        if isOfPresentKey { return made }
        // Else the key has changed meanwhile.
      } catch {
        observer.noticed(.tokenFailed("\(error)"))
        // One that is half used up is better than none.
        return withState { $0.token }
      }
    }
  }
}

/// How far the upstream's clock is ahead of this server's, as the `Date` of its responses shows.
///
/// A response bears a time between that of its request and that of its arrival, so each gives a lower and an upper bound,
/// which latency makes wide but not wrong. The bounds of the last five to ten minutes are held against each other, and
/// the value nearest to zero within them counts: latency alone never looks like a skew.
struct ClockSkew: Sendable {
  private struct Bounds: Sendable {
    var lower: Int
    var upper: Int
  }

  /// The most that is reported either way, in seconds: a day.
  static let largest = 86_400
  /// How long bounds are collected before the older ones are forgotten: 5 min.
  private static let slice = Duration.seconds(300)
  /// Bounds that contradict each other by more than this show that a clock was set, in seconds. All are whole seconds.
  private static let tolerance = 2

  private var present: Bounds?
  private var previous: Bounds?
  private var began = Duration.zero

  /// Takes in a response.
  ///
  /// - Parameters:
  ///   - date: Its `Date`, in seconds since the epoch.
  ///   - sentAt: When the request was sent, by this server's clock.
  ///   - receivedAt: When the response came, by this server's clock.
  ///   - now: The time on the clock that never jumps.
  mutating func note(date: Int, sentAt: Int, receivedAt: Int, now: Duration) {
    advance(to: now)
    let date = min(max(date, sentAt - Self.largest), receivedAt + Self.largest)
    let sample = Bounds(lower: date - receivedAt, upper: date - sentAt)
    let joint = Self.joint(previous, Self.joint(present, sample))
    if joint.lower - joint.upper > Self.tolerance {
      (previous, present) = (nil, sample)
    } else {
      present = Self.joint(present, sample)
    }
  }

  /// Seconds; 0 if nothing is known.
  mutating func seconds(now: Duration) -> Int {
    advance(to: now)
    guard let bounds = present.map({ Self.joint(previous, $0) }) ?? previous else { return 0 }
    let (low, high) = (min(bounds.lower, bounds.upper), max(bounds.lower, bounds.upper))
    return min(max(0, low), high)
  }

  private mutating func advance(to now: Duration) {
    guard now - began >= Self.slice else { return }
    previous = now - began >= Self.slice * 2 ? nil : present
    present = nil
    began = now
  }

  private static func joint(_ some: Bounds?, _ other: Bounds) -> Bounds {
    guard let some else { return other }
    return Bounds(lower: max(some.lower, other.lower), upper: min(some.upper, other.upper))
  }
}
