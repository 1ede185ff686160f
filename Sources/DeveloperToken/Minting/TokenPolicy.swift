import Bytes
public import HTTPMessages

/// The lifetimes of tokens. All times are whole seconds.
public struct TokenPolicy: Sendable, Hashable {
  /// Apple's limit on a token's lifetime, six months: the maximum distance of `exp` from now and from `iat`.
  public static let maximumLifetime = 15_777_000
  /// The minimum lifetime of a request. A shorter token might expire before its first use.
  public static let minimumTTL = 60
  /// The maximum of `backdate` and `margin`. An operator should correct a clock that is off by more than a day.
  public static let maximumAllowance = 86_400
  /// The range of a plausible clock. A time before 2024 or after the year 9999 is from a clock that was never set.
  static let plausibleTimes = 1_704_067_200...253_402_300_799

  /// The default lifetime of a token from now.
  public let ttl: Int
  /// The maximum lifetime that a request may specify.
  public let maxTTL: Int
  /// The distance of `iat` before now, so that it is not in the future for Apple if Apple's clock is slower.
  public let backdate: Int
  /// The distance of `exp` below now + `maximumLifetime`, so that a fast clock here does not put `exp` above Apple's
  /// limit. 34 seconds ahead have been enough for a 401; other protocols allow for five minutes.
  public let margin: Int

  /// Creates a policy. The defaults: 12 hours, at most 24 hours or `ttl` if that is longer, backdated by a minute.
  ///
  /// - Throws: `TokenPolicyError`, a sentence that names the setting and what would be right.
  public init(ttl: Int = 43_200, maxTTL: Int? = nil, backdate: Int = 60, margin: Int = 300) throws(TokenPolicyError) {
    let maxTTL = maxTTL ?? max(86_400, ttl)
    try Self.check(ttl, Self.minimumTTL...Self.maximumLifetime, "token.ttl")
    try Self.check(maxTTL, Self.minimumTTL...Self.maximumLifetime, "token.maxTTL")
    try Self.check(backdate, 0...Self.maximumAllowance, "token.backdate")
    try Self.check(margin, 0...Self.maximumAllowance, "The margin below Apple's limit")
    guard ttl <= maxTTL else {
      throw TokenPolicyError(description: "token.maxTTL (\(maxTTL) s) is shorter than token.ttl (\(ttl) s).")
    }
    (self.ttl, self.maxTTL, self.backdate, self.margin) = (ttl, maxTTL, backdate, margin)
  }

  private static func check(_ value: Int, _ range: ClosedRange<Int>, _ name: String) throws(TokenPolicyError) {
    guard !range.contains(value) else { return }
    throw TokenPolicyError(
      description: "\(name) is \(value) s; it must be from \(range.lowerBound) to \(range.upperBound) s.")
  }

  /// Returns the lifetime for a request.
  ///
  /// - Throws: `TokenError` if the requested lifetime is below a minute or above `maxTTL`.
  func lifetime(requested: Int?) throws(TokenError) -> Int {
    guard let requested else { return ttl }
    guard requested >= Self.minimumTTL else { throw .ttlTooShort(requested: requested, minimum: Self.minimumTTL) }
    guard requested <= maxTTL else { throw .ttlTooLong(requested: requested, maximum: maxTTL) }
    return requested
  }

  /// Returns the claims of a token minted now: `iat` backdated, `exp` within both of Apple's limits for any `lifetime`.
  ///
  /// - Throws: `TokenError.implausibleClock` if the clock is so wrong that Apple would reject the token.
  func claims(issuer: TeamID, lifetime: Int, origins: [Origin], now: Int) throws(TokenError) -> Claims {
    guard Self.plausibleTimes.contains(now) else { throw .implausibleClock(now: now) }
    let cap = Self.maximumLifetime - max(backdate, margin)
    return Claims(
      issuer: issuer, issuedAt: now - backdate, expiresAt: now + min(lifetime, cap), origins: origins)
  }
}

/// The error of a policy that would produce invalid tokens.
public struct TokenPolicyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// One sentence that names the setting and what would be right.
  public let description: String
}

/// The claims of a developer token (RFC 7519 §4), in Apple's form.
public struct Claims: Sendable, Hashable {
  /// The `iss`: the team.
  public let issuer: TeamID
  /// `iat`, whole seconds since 1970.
  public let issuedAt: Int
  /// `exp`, whole seconds since 1970.
  public let expiresAt: Int
  /// The `origin` list. The token omits the claim if the list is empty, because Apple reads an empty array as allowing
  /// no origin.
  public let origins: [Origin]

  /// The claims as compact JSON.
  public var json: [UInt8] {
    // Neither a team ID nor an origin can contain a character that JSON must escape.
    var json: [UInt8] = []
    json.reserveCapacity(96 + origins.count * 40)
    json.append(#"{"iss":""#)
    json.append(contentsOf: issuer.description.utf8)
    json.append(#"","iat":"#)
    json.append(decimal: issuedAt)
    json.append(#","exp":"#)
    json.append(decimal: expiresAt)
    for (index, origin) in origins.enumerated() {
      json.append(index == 0 ? #","origin":[""# : #",""#)
      json.append(contentsOf: origin.description.utf8)
      json.append("\"")
    }
    json.append(origins.isEmpty ? "}" : "]}")
    return json
  }

  /// Returns the protected header for a key (RFC 7515 §4.1) as JSON. Apple does not require `typ`, but some tools do.
  static func header(keyID: KeyID) -> [UInt8] {
    Array(#"{"alg":"ES256","kid":"\#(keyID)","typ":"JWT"}"#.utf8)
  }
}
