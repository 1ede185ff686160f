import Bytes
public import Cryptography
public import HTTPMessages
import Locks

/// Mints developer tokens and reuses each one until half of its lifetime has passed.
///
/// All threads share one minter. A cached token costs a short critical section, and signing happens outside of it.
public final class TokenMinter: @unchecked Sendable {
  // Sendable: all mutable state is accessed only with the monitor locked. A signer that was taken out of the pool
  // belongs to the thread that took it.

  /// The maximum number of origins in a token. It keeps the token, which is sent in a header field, under 12 KiB.
  public static let maximumOrigins = 32

  /// The key that signs the tokens.
  public let key: SigningKey
  /// The team ID for the `iss` of every token.
  public let team: TeamID
  /// The lifetimes of tokens.
  public let policy: TokenPolicy

  /// The header in base64url and its dot: the same in every token.
  private let prefix: [UInt8]
  private let monitor = Monitor()
  private var cache: TokenCache
  /// The idle signers, at most as many as threads that have signed at once.
  private var signers: [Signer]
  private var signatures = 0

  /// Creates a minter with an empty cache.
  ///
  /// - Parameter cacheCapacity: The number of tokens with different claims in the cache, each 0.3 to 12 KiB.
  /// - Throws: `TokenError` if key ID and team ID are the same, or OpenSSL fails.
  public init(
    key: SigningKey, team: TeamID, policy: TokenPolicy, cacheCapacity: Int = 1024
  ) throws(TokenError) {
    guard key.keyID.description != team.description else { throw .keyIDEqualsTeamID(key.keyID) }
    self.key = key
    self.team = team
    self.policy = policy
    cache = TokenCache(capacity: cacheCapacity)
    signers = [try Self.signer(of: key)]
    var prefix: [UInt8] = []
    Base64.appendURL(Claims.header(keyID: key.keyID).span, to: &prefix)
    self.prefix = prefix + [UInt8(ascii: ".")]
  }

  /// Returns a token with these claims and at least half of its lifetime left, from the cache if possible.
  ///
  /// - Parameters:
  ///   - ttl: The lifetime from now in seconds; nil for the policy's default.
  ///   - origins: The origins of the token, in any order. If empty, the token has no such claim.
  ///   - now: The time in seconds since 1970.
  /// - Throws: `TokenError`.
  public func token(ttl: Int? = nil, origins: [Origin] = [], now: Int) throws(TokenError) -> MintedToken {
    let key = TokenCache.Key(ttl: try policy.lifetime(requested: ttl), origins: try Self.canonical(origins))
    monitor.lock()
    while true {
      switch cache.request(key, now: now) {
      case .take(let token):
        monitor.unlock()
        return token
      case .wait:
        monitor.wait()
      case .sign(let present):
        return try sign(key, present: present, now: now)
      }
    }
  }

  /// Mints a token for one caller only, with its own signature.
  ///
  /// - Throws: `TokenError`.
  public func freshToken(ttl: Int? = nil, origins: [Origin] = [], now: Int) throws(TokenError) -> MintedToken {
    let key = TokenCache.Key(ttl: try policy.lifetime(requested: ttl), origins: try Self.canonical(origins))
    monitor.lock()
    let signer = signers.popLast()
    monitor.unlock()
    let result = mint(key, signer, now: now)
    monitor.lock()
    putBack(result)
    monitor.unlock()
    return try result.token.get()
  }

  /// The number of signatures so far, for metrics.
  public var signatureCount: Int {
    monitor.lock()
    defer { monitor.unlock() }
    return signatures
  }

  var cachedTokens: Int {
    monitor.lock()
    defer { monitor.unlock() }
    return cache.count
  }

  /// Signs a token. The caller holds the lock; this function releases it to sign, and returns without it.
  private func sign(
    _ key: TokenCache.Key, present: MintedToken?, now: Int
  ) throws(TokenError) -> MintedToken {
    let signer = signers.popLast()
    monitor.unlock()
    let result = mint(key, signer, now: now)
    monitor.lock()
    putBack(result)
    cache.finish(key, try? result.token.get())
    monitor.broadcast()
    monitor.unlock()
    // The present token has half of its lifetime left, which is better than an error.
    if let present, case .failure = result.token { return present }
    return try result.token.get()
  }

  private typealias Minted = (token: Result<MintedToken, TokenError>, signer: Signer?)

  private func mint(_ key: TokenCache.Key, _ idle: Signer?, now: Int) -> Minted {
    do throws(TokenError) {
      let claims = try policy.claims(issuer: team, lifetime: key.ttl, origins: key.origins, now: now)
      let signer = if let idle { idle } else { try Self.signer(of: self.key) }
      do {
        let compact = try compactJWS(claims, signer)
        return (.success(try MintedToken(compact: compact, claims: claims, mintedAt: now)), signer)
      } catch {
        // A context that failed is not reused.
        return (.failure(.signing(error)), nil)
      }
    } catch {
      return (.failure(error), idle)
    }
  }

  private func putBack(_ result: Minted) {
    if let signer = result.signer { signers.append(signer) }
    if case .success = result.token { signatures += 1 }
  }

  private func compactJWS(_ claims: Claims, _ signer: Signer) throws(CryptographyError) -> [UInt8] {
    let json = claims.json
    var compact: [UInt8] = []
    compact.reserveCapacity(
      prefix.count + Base64.encodedCount(json.count) + 1 + Base64.encodedCount(ECDSASignature.count))
    compact.append(contentsOf: prefix)
    Base64.appendURL(json.span, to: &compact)
    let signature = try signer.signature(of: compact.span)
    compact.append(UInt8(ascii: "."))
    Base64.appendURL(signature.raw.span, to: &compact)
    return compact
  }

  private static func signer(of key: SigningKey) throws(TokenError) -> Signer {
    do { return try key.makeSigner() } catch { throw .signing(error) }
  }

  /// Returns the origins in ascending order, without duplicates. Most lists have at most one origin and need no work.
  private static func canonical(_ origins: [Origin]) throws(TokenError) -> [Origin] {
    guard origins.count <= maximumOrigins else {
      throw .tooManyOrigins(count: origins.count, maximum: maximumOrigins)
    }
    guard origins.count > 1 else { return origins }
    return Set(origins).sorted()
  }
}

/// The reason why no token can be minted.
public enum TokenError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The requested lifetime is below the minimum; both in seconds.
  case ttlTooShort(requested: Int, minimum: Int)
  /// The requested lifetime is above the policy's maximum; both in seconds.
  case ttlTooLong(requested: Int, maximum: Int)
  /// There are more origins than one token may have.
  case tooManyOrigins(count: Int, maximum: Int)
  /// The clock is clearly wrong, so the times of the token would be wrong too.
  case implausibleClock(now: Int)
  /// The key ID and the team ID are the same, so one of them is wrong.
  case keyIDEqualsTeamID(KeyID)
  /// OpenSSL failed to sign.
  case signing(CryptographyError)

  /// One sentence for the caller.
  public var description: String {
    switch self {
    case .ttlTooShort(let requested, let minimum):
      "A lifetime of \(requested) s is too short; the least is \(minimum) s."
    case .ttlTooLong(let requested, let maximum):
      "A lifetime of \(requested) s is too long; the most that may be asked for is \(maximum) s."
    case .tooManyOrigins(let count, let maximum):
      "\(count) origins are too many for one token; the most is \(maximum)."
    case .implausibleClock(let now):
      "The clock of this machine says \(now) seconds since 1970, which cannot be right; set it before minting tokens."
    case .keyIDEqualsTeamID(let keyID):
      "The key ID and the team ID are both \(keyID); one of them has been given twice."
    case .signing(let error): "The token could not be signed. \(error)"
    }
  }
}
