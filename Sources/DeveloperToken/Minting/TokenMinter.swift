import Bytes
public import Cryptography
public import HTTPMessages
import Locks

/// Mints developer tokens and reuses each one until half of its lifetime has passed. All threads share one minter. A
/// cached token costs a short critical section, and signing happens outside of it.
public final class TokenMinter: @unchecked Sendable {
  // Sendable: all mutable state is accessed only with the monitor locked.

  /// The most origins in a token. They keep the token, which is sent in a header field, under 12 KiB.
  public static let maximumOrigins = 32

  /// The key that signs the tokens.
  public let key: SigningKey
  /// The team ID for the `iss` of every token.
  public let team: TeamID
  /// The lifetimes of tokens.
  public let policy: TokenPolicy

  /// The header in base64url and its dot: the same in every token.
  private let prefix: [UInt8]
  let monitor = Monitor()
  var cache: TokenCache
  /// What a remote signer is to sign.
  var due = DueTokens()
  private var records: [MintingRecord.Use: MintingRecord] = [:]

  /// Creates a minter with a cache for different tokens, each 0.8 to 32 KiB with its document. Throws for equal IDs.
  public init(key: SigningKey, team: TeamID, policy: TokenPolicy, cacheCapacity: Int = 1024) throws(TokenError) {
    guard key.keyID.description != team.description else { throw .keyIDEqualsTeamID(key.keyID) }
    (self.key, self.team, self.policy) = (key, team, policy)
    cache = TokenCache(capacity: cacheCapacity)
    var prefix: [UInt8] = []
    Base64.appendURL(Claims.header(keyID: key.keyID).span, to: &prefix)
    self.prefix = prefix + [UInt8(ascii: ".")]
  }

  /// Returns a token with these claims and at least half of its lifetime left, from the cache if possible.
  ///
  /// - Parameters:
  ///   - ttl: The lifetime from now in seconds; nil for the policy's default.
  ///   - origins: The origins in any order. Without any, the token has no such claim.
  ///   - now: The time in seconds since 1970.
  public func token(ttl: Int? = nil, origins: [Origin] = [], now: Int) throws(TokenError) -> MintedToken {
    try document(ttl: ttl, origins: origins, now: now).token
  }

  /// Returns the same token as ``token(ttl:origins:now:)`` does, with its document. All callers of a second share that.
  /// With a remote signer it may block; ``request(ttl:origins:for:clock:)`` never does.
  public func document(ttl: Int? = nil, origins: [Origin] = [], now: Int) throws(TokenError) -> TokenDocument {
    let key = try cacheKey(ttl, origins)
    monitor.lock()
    while true {
      switch cache.request(key, now: now) {
      case .take(let document):
        monitor.unlock()
        return document
      case .wait: monitor.wait()
      case .sign(let present):
        monitor.unlock()
        let document = finish(key, mint(key, now: now), now: now)
        // The present token has half of its lifetime left, which is better than an error.
        if let present, case .failure = document { return present }
        return try document.get()
      }
    }
  }

  /// The response to a request for a token.
  public enum Answer: Sendable {
    case ready(TokenDocument)
    /// The signer signs the token.
    case waiting(AwaitedToken)
  }

  /// Returns the same token as ``document(ttl:origins:now:)`` does, or else what to wait for. It never blocks with a
  /// remote signer, but throws at once if that has just failed, or if too many wait for it.
  ///
  /// - Parameters:
  ///   - client: The client whose places for waiting callers this one takes.
  ///   - clock: Returns the time in seconds since 1970, now and when the signer's turn comes.
  public func request(
    ttl: Int? = nil, origins: [Origin] = [], for client: String, clock: @escaping @Sendable () -> Int
  ) throws(TokenError) -> Answer {
    guard let remote = key.remote else { return .ready(try document(ttl: ttl, origins: origins, now: clock())) }
    return try request(cacheKey(ttl, origins), by: remote, for: client, clock: clock)
  }

  func cacheKey(_ ttl: Int?, _ origins: [Origin]) throws(TokenError) -> TokenCache.Key {
    TokenCache.Key(ttl: try policy.lifetime(requested: ttl), origins: try Self.canonical(origins))
  }

  /// Checks whether `token` has a reason to refuse these parameters, and mints nothing.
  public func check(ttl: Int?, origins: [Origin], now: Int) throws(TokenError) {
    _ = try claims(cacheKey(ttl, origins), now: now)
  }

  /// Mints a token for the upstream, with its own signature, which no caller gets. With a remote signer it blocks.
  public func freshToken(ttl: Int? = nil, origins: [Origin] = [], now: Int) throws(TokenError) -> MintedToken {
    let token = mint(try cacheKey(ttl, origins), now: now)
    monitor.withLock { records[.upstream, default: MintingRecord()].note(token, isUsual: true) }
    return try token.get()
  }

  /// Makes room for more tokens with different claims in the cache. The present ones stay.
  public func growCache(to capacity: Int) { monitor.withLock { cache.grow(to: capacity) } }

  /// The number of signatures so far, for metrics.
  public var signatureCount: Int { monitor.withLock { records.values.reduce(0) { $0 + $1.minted } } }

  /// The latest tokens for this use, for metrics.
  public func record(of use: MintingRecord.Use) -> MintingRecord { monitor.withLock { records[use] ?? .init() } }

  var cachedTokens: Int { monitor.withLock { cache.count } }

  /// Notes the end of signing, and hands the token to all who wait for it.
  func finish(
    _ key: TokenCache.Key, _ token: Result<MintedToken, TokenError>, now: Int
  ) -> Result<TokenDocument, TokenError> {
    let document = token.map { TokenDocument($0, now: now) }
    let callers = monitor.withLock {
      let isUsual = key.ttl == policy.ttl && key.origins.isEmpty
      records[.caller, default: MintingRecord()].note(token, isUsual: isUsual)
      cache.finish(key, try? document.get())
      monitor.broadcast()
      return due.remove(key)
    }
    for caller in callers { caller.resume(document) }
    return document
  }

  func mint(_ key: TokenCache.Key, now: Int) -> Result<MintedToken, TokenError> {
    Result { () throws(TokenError) in
      let claims = try claims(key, now: now)
      var compact = signingInput(claims)
      let signature = try self.key.signature(of: compact)
      compact.append(UInt8(ascii: "."))
      Base64.appendURL(signature.raw.span, to: &compact)
      do throws(CryptographyError) {
        return try MintedToken(compact: compact, claims: claims, mintedAt: now)
      } catch { throw .signing(error) }
    }
  }

  private func claims(_ key: TokenCache.Key, now: Int) throws(TokenError) -> Claims {
    try policy.claims(issuer: team, lifetime: key.ttl, origins: key.origins, now: now)
  }

  /// Returns header and claims in base64url, with room for the signature.
  private func signingInput(_ claims: Claims) -> [UInt8] {
    let json = claims.json
    var compact: [UInt8] = []
    compact.reserveCapacity(
      prefix.count + Base64.encodedCount(json.count) + 1 + Base64.encodedCount(ECDSASignature.count))
    compact.append(contentsOf: prefix)
    Base64.appendURL(json.span, to: &compact)
    return compact
  }

  /// Returns the origins in ascending order, without duplicates. Most lists have at most one origin and need no work.
  private static func canonical(_ origins: [Origin]) throws(TokenError) -> [Origin] {
    guard origins.count <= maximumOrigins
    else { throw .tooManyOrigins(count: origins.count, maximum: maximumOrigins) }
    return origins.count > 1 ? Set(origins).sorted() : origins
  }
}

/// The reason why no token can be minted.
public enum TokenError: Error, Sendable, Hashable, CustomStringConvertible {
  case ttlTooShort(requested: Int, minimum: Int)
  case ttlTooLong(requested: Int, maximum: Int)
  case tooManyOrigins(count: Int, maximum: Int)
  case implausibleClock(now: Int)
  case keyIDEqualsTeamID(KeyID)
  case signing(CryptographyError)
  case signer(RemoteSignerError)
  /// Too many callers wait for the remote signer, or this one has waited too long.
  case signerBusy

  /// One sentence for the caller.
  public var description: String {
    switch self {
    case .ttlTooShort(let requested, let minimum):
      "A lifetime of \(requested) s is too short; the minimum is \(minimum) s."
    case .ttlTooLong(let requested, let maximum):
      "A lifetime of \(requested) s is too long; the maximum is \(maximum) s."
    case .tooManyOrigins(let count, let maximum):
      "\(count) origins are too many for one token; the maximum is \(maximum)."
    case .implausibleClock(let now):
      "The clock of this machine is wrong: it says \(now) seconds since 1970. Set it before minting tokens."
    case .keyIDEqualsTeamID(let keyID): "The key ID and the team ID are both \(keyID); one of them is wrong."
    case .signing(let error): "Signing the token failed. \(error)"
    case .signer(let error): "\(error)"
    case .signerBusy: "Too many requests wait for the signer."
    }
  }
}

/// The lifetimes of tokens. All times are whole seconds.
public struct TokenPolicy: Sendable, Hashable {
  /// Apple's limit on a token's lifetime, six months: the maximum distance of `exp` from now and from `iat`.
  public static let maximumLifetime = 15_777_000
  /// The minimum lifetime of a request. A shorter token might expire before its first use.
  public static let minimumTTL = 60
  /// The maximum of `backdate` and `margin`. An operator should correct a clock that is off by more than a day.
  private static let maximumAllowance = 86_400
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
    throw .init(description: "\(name) is \(value) s; it must be from \(range.lowerBound) to \(range.upperBound) s.")
  }

  /// Returns the lifetime for a request, which may not be below a minute or above `maxTTL`.
  func lifetime(requested: Int?) throws(TokenError) -> Int {
    guard let requested else { return ttl }
    guard requested >= Self.minimumTTL else { throw .ttlTooShort(requested: requested, minimum: Self.minimumTTL) }
    guard requested <= maxTTL else { throw .ttlTooLong(requested: requested, maximum: maxTTL) }
    return requested
  }

  /// Returns the claims of a token minted now: `iat` backdated, `exp` within both of Apple's limits for any `lifetime`.
  /// Throws if the clock is so wrong that Apple would reject the token.
  func claims(issuer: TeamID, lifetime: Int, origins: [Origin], now: Int) throws(TokenError) -> Claims {
    guard Self.plausibleTimes.contains(now) else { throw .implausibleClock(now: now) }
    let cap = Self.maximumLifetime - max(backdate, margin)
    return Claims(issuer: issuer, issuedAt: now - backdate, expiresAt: now + min(lifetime, cap), origins: origins)
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
  /// The `origin` list. A token without one omits the claim, because for Apple an empty array allows no origin.
  public let origins: [Origin]

  /// The claims as compact JSON.
  public var json: [UInt8] {
    // Neither a team ID nor an origin can contain a character that JSON must escape.
    var json: [UInt8] = []
    json.reserveCapacity(96 + origins.count * 40)
    json.append(#"{"iss":""#)
    json.append(utf8: issuer.description)
    json.append(#"","iat":"#)
    json.append(decimal: issuedAt)
    json.append(#","exp":"#)
    json.append(decimal: expiresAt)
    for (index, origin) in origins.enumerated() {
      json.append(index == 0 ? #","origin":[""# : #",""#)
      json.append(utf8: origin.description)
      json.append("\"")
    }
    json.append(origins.isEmpty ? "}" : "]}")
    return json
  }

  /// Returns the protected header for a key (RFC 7515 §4.1) as JSON. Apple does not require `typ`, but some tools do.
  static func header(keyID: KeyID) -> [UInt8] { Array(#"{"alg":"ES256","kid":"\#(keyID)","typ":"JWT"}"#.utf8) }
}

/// The latest tokens that a minter made for one use.
public struct MintingRecord: Sendable {
  /// The holder of tokens.
  public enum Use: Sendable, CaseIterable {
    case caller
    /// The server itself, for its requests to the upstream.
    case upstream
  }

  /// The times of a token, in seconds since 1970.
  public struct Times: Sendable, Equatable {
    /// When the token was minted.
    public let mintedAt: Int
    /// When the token expires.
    public let expiresAt: Int
  }

  /// When the last token was minted, whatever its claims; nil before the first.
  public private(set) var lastMintedAt: Int?
  /// The times of the last usual token: for callers, one of the default lifetime without origins, which tells most.
  public private(set) var usual: Times?
  /// The number of tokens that could not be minted.
  public private(set) var failures = 0
  private(set) var minted = 0

  mutating func note(_ result: Result<MintedToken, TokenError>, isUsual: Bool) {
    guard case .success(let token) = result else { return failures += 1 }
    minted += 1
    lastMintedAt = token.mintedAt
    if isUsual { usual = Times(mintedAt: token.mintedAt, expiresAt: token.expiresAt) }
  }
}
