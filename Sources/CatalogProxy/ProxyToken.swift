import HTTP1
import HTTPCache
import Locks
import UpstreamAdmission

/// A developer token for the upstream. It has no origin claim, and the server never sends it to a caller.
public final class ProxyToken: Sendable {
  /// The token in compact form.
  public let text: String
  /// The field `Authorization`, created once for all requests.
  let credential: FieldLines
  /// The time after which the server mints another token, in seconds since the epoch.
  public let refreshAt: Int
  /// The time after which the server mints another token in the background, and sends this one until then. Nil if it does
  /// not.
  public let renewAt: Int?
  /// When the token expires, in seconds since the epoch. It is never sent from then on.
  public let expiresAt: Int
  /// The ID of the key that signed the token, for the log. Nil if the source does not tell.
  public let keyID: String?
  /// The version of the token, which a later 401 refers to.
  let version: TokenVersion?
  let madeAt: CacheTime?

  /// Creates a token.
  public init(text: String, refreshAt: Int, renewAt: Int? = nil, expiresAt: Int, keyID: String? = nil) {
    (self.text, credential, self.keyID) = (text, HeaderPolicy.credential(text), keyID)
    (self.refreshAt, self.renewAt, self.expiresAt) = (refreshAt, renewAt, expiresAt)
    (version, madeAt) = (nil, nil)
  }

  private init(_ token: ProxyToken, _ version: TokenVersion, madeAt: CacheTime) {
    (text, credential, keyID) = (token.text, token.credential, token.keyID)
    (refreshAt, renewAt, expiresAt) = (token.refreshAt, token.renewAt, token.expiresAt)
    (self.version, self.madeAt) = (version, madeAt)
  }

  func numbered(_ version: TokenVersion, at time: CacheTime) -> ProxyToken { ProxyToken(self, version, madeAt: time) }

  /// The smallest step of the wall clock that makes a token count as minted by another clock: 5 s. Rounding to whole
  /// seconds and the rate that NTP may adjust (500 ppm) cause less between two tokens.
  static let leastClockStep = 5

  /// Returns whether the wall clock was set after the token was minted, so that its times are or were wrong.
  func isFromAnotherClock(at now: CacheTime) -> Bool {
    madeAt.map { now.wallClockStep(since: $0).magnitude >= Self.leastClockStep } ?? false
  }
}

/// A source of developer tokens for the upstream.
public protocol TokenSource: Sendable {
  /// Whether a signer outside of the server signs, so that minting may take seconds: no event loop waits for it.
  var isRemote: Bool { get }
  /// Mints a token that no other caller has.
  ///
  /// - Parameter now: The time in seconds since the epoch.
  /// - Throws: An error. Its description is a sentence for the log.
  func mint(now: Int) throws -> ProxyToken
}

extension TokenSource {
  /// False.
  public var isRemote: Bool { false }
}

extension CatalogGateway {
  /// Returns the token to send. Mints one if the gateway has no token, if the current one is half used up, if a 401
  /// requires a new one, or if the wall clock was set since. If minting fails, it returns the last token, or nil.
  ///
  /// Only one event loop mints a token. The other loops wait for its signature, which takes less time than their own.
  func currentToken() -> ProxyToken? {
    let now = clock.now
    return usableToken(now: now) ?? minting.withLock { _ in usableToken(now: now) ?? mintToken(now: now) }
  }

  func usableToken(now: CacheTime) -> ProxyToken? {
    withAdmission { $0.usableToken(now: now) }
  }

  /// Mints the missing token. The caller holds `minting`.
  private func mintToken(now: CacheTime) -> ProxyToken? {
    while true {
      let (source, serial, version) = withAdmission { admission in
        // Otherwise a 401 has already started another version.
        if admission.token == nil || admission.token?.version == admission.tokenRefresh.current {
          let isFromAnotherClock = admission.token?.isFromAnotherClock(at: now) ?? false
          _ = admission.tokenRefresh.renewed(isUnjudged: admission.hasNewKey || isFromAnotherClock)
          admission.hasNewKey = false
        }
        return (admission.tokenSource, admission.tokenSourceVersion, admission.tokenRefresh.current)
      }
      guard let source else { return nil }
      // A reload has brought a remote signer.
      if source.isRemote { return withAdmission { $0.token } }
      do {
        let made = try source.mint(now: now.wall).numbered(version, at: now)
        let isOfPresentKey = withAdmission { admission in
          guard admission.tokenSourceVersion == serial else { return false }
          admission.counts.tokensMinted += 1
          admission.token = made
          return true
        }
        if isOfPresentKey { return made }
        // Otherwise the key has changed meanwhile.
      } catch {
        observer.noticed(.tokenFailed("\(error)"))
        // A token that is half used up is still better than no token.
        return withAdmission { $0.unexpiredToken(now: now) }
      }
    }
  }
}

/// The time by which the upstream's clock is ahead of this server's, according to the `Date` of responses.
///
/// The `Date` of a response lies between the times of its request and its arrival, so each response gives a lower and
/// an upper bound. Latency widens the bounds but does not make them wrong. The value nearest to zero within the bounds
/// of the last five to ten minutes is the result, so latency alone never looks like a skew.
struct ClockSkew: Sendable {
  private struct Bounds: Sendable {
    var lower: Int
    var upper: Int
  }

  /// The largest skew that is reported in either direction, in seconds: one day.
  static let largest = 86_400
  /// The length of a period of collected bounds: 5 min. Only the current and the previous period count.
  private static let slice = Duration.seconds(300)
  /// The contradiction between bounds, in whole seconds, above which a clock must have been set.
  private static let tolerance = 2

  private var present: Bounds?
  private var previous: Bounds?
  private var began = Duration.zero

  /// Adds the times of a response.
  ///
  /// - Parameters:
  ///   - date: The value of `Date`, in seconds since the epoch.
  ///   - sentAt: The time of the request by this server's clock, in seconds since the epoch.
  ///   - receivedAt: The time of the response's arrival by this server's clock, in seconds since the epoch.
  ///   - now: The time on the monotonic clock.
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

  /// Returns the skew in seconds, or 0 if nothing is known.
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
