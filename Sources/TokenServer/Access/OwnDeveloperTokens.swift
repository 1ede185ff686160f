import Access
import Bytes
import Cryptography
import DeveloperToken
import EventLoop
import Glibc
import HTTPServer
import JSON
import Locks

/// Recognizes developer tokens that the server's own keys have signed.
///
/// Libraries for Apple's API make or fetch a developer token and send it with every request. Such a token is no wrong
/// credential of this server's: it counts as none, and the rules for callers without a credential apply. The cheap
/// checks come first, and a verified token is remembered, so that repeated use costs no verification.
final class OwnDeveloperTokens: Sendable {
  private let team: TeamID
  private let keys: [VerificationKey]
  private let retired: [KeyID]
  private let verified = Locked<[ByteString: Int]>([:])

  /// The maximum number of remembered tokens. Callers with the same claims share one, so they are few.
  static let mostVerified = 1024
  /// The maximum number of keys. The oldest ones of former generations of the settings go first.
  static let mostKeys = 8

  /// - Parameters:
  ///   - keys: The keys that sign now or next, before those of the former generation, whose tokens callers may hold.
  ///   - retired: The keys of `musickit.keys` that signed before, and whose files the server does not read.
  init(_ keys: [SigningKey], retired: [KeyID] = [], team: TeamID, replacing previous: OwnDeveloperTokens? = nil) {
    (self.retired, self.team) = (retired, team)
    let former = previous?.team == team ? previous?.keys ?? [] : []
    self.keys = (keys.map(\.verificationKey) + former).reduce(into: []) { all, key in
      guard all.count < Self.mostKeys, !all.contains(where: { $0.keyID == key.keyID }) else { return }
      all.append(key)
    }
  }

  enum Recognition: Equatable {
    case own
    /// A developer token that does not count. The sentence says why.
    case refused(String, isGuess: Bool)
    case other
  }

  /// Judges a bearer token. Calls `mayVerify` before a verification, for a token that passes every cheap check.
  func judge(_ token: ArraySlice<UInt8>, now: Int, mayVerify: () -> Bool) -> Recognition {
    guard token.count <= JWS.limit, token.count(where: { $0 == UInt8(ascii: ".") }) == 2,
      let digest = try? SHA256.digest(of: token.span)
    else { return .other }
    let name = ByteString((0..<32).map { digest[$0] })
    if let expiry = verified.withLock({ $0[name] }) { return now < expiry ? .own : Self.expired(expiry, now: now) }
    guard let jws = try? JWS(compact: token.span), let header = jws.header, let claims = JSONReader.read(jws.payload),
      case .string(let issuer)? = claims["iss"], (try? TeamID(issuer.text)) != nil, header.repeatedNames.isEmpty,
      claims.repeatedNames.isEmpty
    else { return .other }
    guard header["alg"] == .string("ES256"), case .string(let keyID)? = header["kid"],
      case .number(let text)? = claims["exp"], let expiry = Int(text), expiry >= 0
    else {
      return .refused("The developer token is not one that Apple takes: it lacks ES256, kid or exp.", isGuess: true)
    }
    guard issuer == team.description else {
      return .refused("The developer token is of another team than this server's.", isGuess: true)
    }
    guard let key = keys.first(where: { $0.keyID.map { keyID == $0.description } ?? false }) else {
      // Apps hold tokens of a retired key for as long as they live. A forged one gains nothing: it counts as no credential.
      if retired.contains(where: { keyID == $0.description }) {
        return now < expiry ? .own : Self.expired(expiry, now: now)
      }
      return .refused("The developer token is of a key that this server does not have.", isGuess: true)
    }
    guard now < expiry else { return Self.expired(expiry, now: now) }
    guard mayVerify() else {
      return .refused("The server verifies no more developer tokens of this address at present.", isGuess: true)
    }
    guard key.verifies(jws) else {
      return .refused("The signature of the developer token does not verify with this server's key.", isGuess: true)
    }
    verified.withLock { verified in
      if verified.count >= Self.mostVerified { verified = verified.filter { now < $0.value } }
      if verified.count >= Self.mostVerified { verified = [:] }
      verified[name] = expiry
    }
    return .own
  }

  /// An app fetches a new token after a 401, so an expired one is no guess.
  private static func expired(_ expiry: Int, now: Int) -> Recognition {
    .refused("The developer token expired \(now - expiry) s ago.", isGuess: false)
  }
}

extension AccessGate {
  /// Returns whether a bearer token is a developer token of this server, which counts as no credential.
  func isOwn(_ token: ArraySlice<UInt8>, _ auditContext: AuditContext) -> Bool {
    ownTokens.judge(token, now: Glibc.time(nil), mayVerify: { mayVerify(auditContext) }) == .own
  }

  /// Whether an address may cause another verification: as many as failures, so that forged tokens cost little time.
  func mayVerify(_ auditContext: AuditContext) -> Bool {
    let verdict = service.verifications.take(
      Self.verifications, for: .address(auditContext.rateLimitPrefix), now: Deadline.now.nanoseconds)
    if case .limited = verdict { return false }
    return true
  }

  private static let verifications = ClientRates(client: "verifications", perCaller: RateLimits.failures, total: nil)

  /// Reads the credentials of a request again, as if it had no developer token of this server beside another credential.
  /// Apart from `admit`, because what a closure captures there costs every request 600 instructions.
  @inline(never)
  func withoutOwnToken(_ request: Request, _ auditContext: AuditContext) -> PresentedCredentials {
    PresentedCredentials(request, to: policy, certificate: certificate(of: request)) { isOwn($0, auditContext) }
  }
}
