import Bytes
public import HTTPMessages

/// How long tokens live. All times are whole seconds.
public struct TokenPolicy: Sendable, Hashable {
  /// Apple's limit on a token's lifetime, six months: `exp` may be this far from now and from `iat`.
  public static let maximumLifetime = 15_777_000
  /// Shortest lifetime that a token may be asked for: less than this, and it may be dead before it is used.
  public static let minimumTTL = 60
  /// Most that `backdate` and `margin` may be: an operator should fix a clock that is off by more than a day.
  public static let maximumAllowance = 86_400
  /// Times before this (2024) or after year 9999 are a clock that was never set.
  static let plausibleTimes = 1_704_067_200...253_402_300_799

  /// Lifetime of issued tokens from now, unless a request asks for another.
  public let ttl: Int
  /// Most that a request may ask for.
  public let maxTTL: Int
  /// How far `iat` lies before now, so that Apple's slower clock does not find it in the future.
  public let backdate: Int
  /// How far `exp` stays below now + `maximumLifetime`, so that our faster clock does not put it past the cap on
  /// Apple's. A clock ahead by 34 seconds has been enough for a 401; five minutes is what other protocols allow for.
  public let margin: Int

  /// The contract's defaults: 12 hours, at most 24 hours or `ttl` if that is longer, backdated by a minute.
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

  /// The lifetime that a request gets.
  ///
  /// - Throws: `TokenError` if it asks for less than a minute or more than `maxTTL`.
  func lifetime(requested: Int?) throws(TokenError) -> Int {
    guard let requested else { return ttl }
    guard requested >= Self.minimumTTL else { throw .ttlTooShort(requested: requested, minimum: Self.minimumTTL) }
    guard requested <= maxTTL else { throw .ttlTooLong(requested: requested, maximum: maxTTL) }
    return requested
  }

  /// The claims of a token minted now: `iat` backdated, `exp` under both of Apple's caps whatever is asked for.
  ///
  /// - Throws: `TokenError.implausibleClock` if the clock is so wrong that Apple would reject the token.
  func claims(issuer: TeamID, lifetime: Int, origins: [Origin], now: Int) throws(TokenError) -> Claims {
    guard Self.plausibleTimes.contains(now) else { throw .implausibleClock(now: now) }
    let cap = Self.maximumLifetime - max(backdate, margin)
    return Claims(
      issuer: issuer, issuedAt: now - backdate, expiresAt: now + min(lifetime, cap), origins: origins)
  }
}

/// A policy that would not give sound tokens.
public struct TokenPolicyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// One sentence that names the setting and what would be right.
  public let description: String
}

/// What a developer token claims (RFC 7519 §4), exactly as Apple takes it.
public struct Claims: Sendable, Hashable {
  /// `iss`, the team.
  public let issuer: TeamID
  /// `iat`, whole seconds since 1970.
  public let issuedAt: Int
  /// `exp`, whole seconds since 1970.
  public let expiresAt: Int
  /// `origin`. The token omits the claim if the list is empty, because Apple reads an empty array as allowing no
  /// origin.
  public let origins: [Origin]

  /// The claims as compact JSON.
  public var json: [UInt8] {
    // Neither a team ID nor an origin can hold a character that JSON would have escaped.
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

  /// The protected header for a key (RFC 7515 §4.1) as JSON. Apple does not ask for `typ`; some tools do.
  static func header(keyID: KeyID) -> [UInt8] {
    Array(#"{"alg":"ES256","kid":"\#(keyID)","typ":"JWT"}"#.utf8)
  }
}
