import Bytes

/// What a caller has left of the limit that binds him most: what the `RateLimit` field says
/// (draft-ietf-httpapi-ratelimit-headers-11 §4).
public struct ServiceLimit: Sendable, Equatable {
  /// Which limit: a quota policy's name in the fields (§3).
  public enum Policy: Sendable, Equatable {
    /// Each caller's own.
    case caller
    /// That of all callers of a client together.
    case total

    /// As it stands in the fields: a String of RFC 9651 §3.3.3, which needs no escape.
    var name: StaticString {
      switch self {
      case .caller: "\"caller\""
      case .total: "\"total\""
      }
    }
  }

  /// Which limit.
  public let policy: Policy
  /// Requests that would be let in now: `r` (§4.1.1).
  public let remaining: Int
  /// The effective window in seconds, rounded up and at least 1: `t` (§4.1.2).
  ///
  /// While requests remain, until the bucket is full again. When none does, until the next one is let in, which is what
  /// `Retry-After` says as well: it should not point to an earlier moment than `t` (§6).
  public let seconds: Int

  /// The value of `RateLimit`: `"caller";r=19;t=4`.
  public var field: String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(40)
    bytes.append(self)
    return String(decoding: bytes, as: UTF8.self)
  }
}

extension [UInt8] {
  /// Appends the value of `RateLimit`: `"caller";r=19;t=4`. Its numbers are far below the fifteen digits of an Integer
  /// of RFC 9651 §3.3.1.
  public mutating func append(_ limit: ServiceLimit) {
    append(limit.policy.name)
    append(";r=")
    append(decimal: limit.remaining)
    append(";t=")
    append(decimal: limit.seconds)
  }
}
