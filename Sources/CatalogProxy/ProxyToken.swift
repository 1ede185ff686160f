import HTTP1
import HTTPCache
import UpstreamAdmission

/// A developer token for the upstream. It has no origin claim, and the server never sends it to a caller.
package final class ProxyToken: Sendable {
  package let text: String
  /// The field `Authorization`, created once for all requests.
  let credential: FieldLines
  /// The time after which the server mints another token, in seconds since the epoch.
  package let refreshAt: Int
  /// The time after which the server mints another token in the background; nil if it does not.
  package let renewAt: Int?
  /// When the token expires, in seconds since the epoch. It is never sent from then on.
  package let expiresAt: Int
  /// The ID of the key that signed the token, for the log. Nil if the source does not tell.
  package let keyID: String?
  /// The version of the token, which a later 401 refers to.
  let version: TokenVersion?
  let madeAt: CacheTime?

  package init(text: String, refreshAt: Int, renewAt: Int? = nil, expiresAt: Int, keyID: String? = nil) {
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

  /// The smallest step of the wall clock that makes a token count as minted by another clock: 5 s. Rounding, and the rate
  /// that NTP may adjust (500 ppm), cause less between two tokens.
  static let leastClockStep = 5

  /// Returns whether the wall clock was set after the token was minted, so that its times are or were wrong.
  func isFromAnotherClock(at now: CacheTime) -> Bool {
    madeAt.map { now.wallClockStep(since: $0).magnitude >= Self.leastClockStep } ?? false
  }
}

package protocol TokenSource: Sendable {
  /// Whether a signer outside of the server signs, so that minting may take seconds: no event loop waits for it.
  var isRemote: Bool { get }
  /// Mints a token at a time in seconds since the epoch. Throws an error that is a sentence for the log.
  func mint(now: Int) throws -> ProxyToken
}

extension TokenSource {
  package var isRemote: Bool { false }
}

/// The time by which the upstream's clock is ahead of this server's, according to the `Date` of responses.
/// The `Date` of a response lies between the times of its request and its arrival, which gives a lower and an upper bound.
/// The result is the value nearest to zero within the bounds of the last five to ten minutes, so latency alone never looks
/// like a skew.
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

  /// Adds the `Date` of a response, and the times of request and arrival by this server's clock, in seconds since the epoch.
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
