import Bytes
import HTTPMessages

extension AccessPolicy {
  /// The key sets to fetch before the server can decide about a JWT.
  public struct WantedKeys: Sendable {
    /// The sets that may contain the key after a fetch.
    public let sources: [KeySetSource]
    /// Those of them that had no keys at all: keys that have arrived since are new enough.
    public let lacking: [KeySetSource]
    /// The denial if no fetch brings the key.
    public let denial: Denial
    let tried: [PublicKey]
  }

  /// Returns the client and the `sub` of a JWT. `missing` receives the key sets to fetch if the denial depends on them.
  func holder(
    ofJWT token: ArraySlice<UInt8>, now: Int, after wanted: WantedKeys?, missing: inout WantedKeys?,
    keys: (KeySetSource) -> JSONWebKeySet?
  ) throws(Denial) -> (Client, subject: ByteString?) {
    let jwt: JWT
    do throws(JWTRefusal) { jwt = try JWT(compact: token.span) } catch { throw Self.denial(error) }
    let candidates = try candidates(for: jwt, now: now)
    var signature = SignatureCheck(jwt, tried: wanted?.tried ?? [])
    let holders = candidates.filter { signature.holds(by: $0.source, keys: keys) }
    guard holders.count < 2 else { throw Self.ambiguousClient }
    if let holder = holders.first { return (clients[holder.client], holder.subject) }
    var denial = !signature.lacking.isEmpty ? Self.providerUnavailable : Self.denial(signature.refusal ?? .badSignature)
    denial.attempts = max(1, signature.failed.count)
    if !signature.wanted.isEmpty {
      missing = WantedKeys(
        sources: signature.wanted, lacking: signature.lacking, denial: denial, tried: signature.failed)
    }
    throw denial
  }

  private typealias Candidate = (client: Int, source: KeySetSource, subject: ByteString?)

  /// Returns the clients whose rules the claims of the token meet; no key is needed yet.
  private func candidates(for jwt: JWT, now: Int) throws(Denial) -> [Candidate] {
    guard let indices = jwt.issuer.flatMap({ issuers[$0] }) else { throw unknownIssuer(jwt) }
    var candidates: [Candidate] = []
    var refusal: (error: JWTRefusal, rules: JWTRules)?
    for index in indices {
      guard case .jwt(let rules, let source) = clients[index].credential else { continue }
      do throws(JWTRefusal) {
        candidates.append((index, source, try jwt.check(rules, now: now).subject))
      } catch {
        // If several clients share a provider, report the refusal of the client that the token matches best.
        if error.nearness > refusal?.error.nearness ?? -1 { refusal = (error, rules) }
      }
    }
    guard !candidates.isEmpty else {
      let words = refusal.flatMap { Self.explanation(of: $0.error, jwt, $0.rules) }
      throw Self.denial(refusal?.error ?? .wrongIssuer, words)
    }
    return candidates
  }

  /// A signature. Each key is tried once, even if several clients share it, and ``JSONWebKeySet/maximumCandidates`` keys
  /// at most, however many key sets the clients of the issuer have.
  private struct SignatureCheck {
    private let jwt: JWT
    private var known: [KeySetSource: Bool] = [:]
    private var tries = 0
    private var signer: PublicKey?
    /// The keys that did not make the signature.
    private(set) var failed: [PublicKey]
    /// The key sets that may contain the key after a fetch.
    private(set) var wanted: [KeySetSource] = []
    /// The key sets of which the server has no keys at all.
    private(set) var lacking: [KeySetSource] = []
    private(set) var refusal: JWTRefusal?

    init(_ jwt: JWT, tried: [PublicKey]) { (self.jwt, failed) = (jwt, tried) }

    mutating func holds(by source: KeySetSource, keys: (KeySetSource) -> JSONWebKeySet?) -> Bool {
      if let known = known[source] { return known }
      let holds = verify(by: source, keys(source))
      known[source] = holds
      return holds
    }

    private mutating func verify(by source: KeySetSource, _ keys: JSONWebKeySet?) -> Bool {
      guard let keys else {
        wanted.append(source)
        lacking.append(source)
        return false
      }
      do throws(JWTRefusal) {
        for candidate in try keys.candidates(for: jwt.algorithm, keyID: jwt.keyID) {
          if try isSigner(candidate.key) { return true }
        }
        throw jwt.refusalOfSignature
      } catch {
        if error.mayBeOfNewerKey { wanted.append(source) }
        refusal = error
        return false
      }
    }

    private mutating func isSigner(_ key: PublicKey) throws(JWTRefusal) -> Bool {
      if key == signer { return true }
      if failed.contains(key) { return false }
      guard tries < JSONWebKeySet.maximumCandidates else { throw .ambiguousKey }
      tries += 1
      if jwt.isSigned(by: key) {
        signer = key
        return true
      }
      failed.append(key)
      return false
    }
  }

  /// The denial of a token that matches several clients, which may have different rights.
  private static let ambiguousClient = Denial(
    .invalidCredentials, "jwt_ambiguous_client",
    "The aud or other claims of the JWT match several clients of this server. They must match one client.")

  /// Returns the denial for a refused JWT, with an explanation in place of the refusal's own if there is one.
  static func denial(_ refusal: JWTRefusal, _ explanation: String? = nil) -> Denial {
    Denial(.invalidCredentials, refusal.reason, explanation ?? "\(refusal)", isGuess: refusal.isGuess)
  }

  /// Returns a sentence about a claim that is missing, or that resembles what the rules require; nil if neither holds.
  /// Like the refusal's own, it quotes nothing that the operator expects.
  static func explanation(of refusal: JWTRefusal, _ jwt: JWT, _ rules: JWTRules) -> String? {
    switch refusal {
    case .wrongAudience where !jwt.claims.hasAudience:
      return "The JWT has no aud, and this server requires one that names it."
    case .wrongAudience: return difference(of: jwt.claims.audiences, to: rules.audiences).map { "\(refusal) It \($0)" }
    case .requiredClaim(let name):
      guard let claim = rules.requiredClaims.first(where: { $0.name == name }), claim.namesApplication
      else { return nil }
      return difference(of: jwt.claims.texts(name), to: claim.values).map { "\(refusal) Its \(name) \($0)" }
    default: return nil
    }
  }

  /// The most values of a claim that the server compares with each expected one.
  private static let mostCompared = 8

  private static func difference(of presented: [ByteString]?, to expected: [String]?) -> String? {
    for value in (presented ?? []).prefix(mostCompared) {
      for expected in expected ?? [] {
        guard let difference = IdentifierDifference(value, ByteString(expected)) else { continue }
        return "differs from an accepted one \(difference)."
      }
    }
    return nil
  }

  private func unknownIssuer(_ jwt: JWT) -> Denial {
    let issuer = jwt.issuer.map { "of the issuer \(Printable.quote($0, limit: 120))" } ?? "without iss"
    return Denial(
      .invalidCredentials, "jwt_unknown_issuer",
      advice(onDeveloperToken: jwt) ?? "No client of this server uses tokens \(issuer).\(resemblance(of: jwt.issuer))")
  }

  private func resemblance(of issuer: ByteString?) -> String {
    guard let issuer, let similar = similarIssuers[IdentifierDifference.core(issuer)],
      let difference = IdentifierDifference(issuer, similar)
    else { return "" }
    return " It differs from the issuer of a client \(difference), and the server compares byte by byte."
  }
}

/// The difference between two identifiers that people take for the same: an `iss` or `aud` and the configured one. The
/// server compares them byte for byte (OpenID Connect Core §3.1.3.7, RFC 7519 §2), and the eye passes over much.
struct IdentifierDifference: CustomStringConvertible {
  /// The differences, as the end of a sentence: `only by a slash at the end`.
  let description: String

  /// Returns nil if the identifiers are equal, or differ in more than their scheme, slashes at their end, and case.
  init?(_ one: ByteString, _ other: ByteString) {
    guard one != other else { return nil }
    let (one, other) = (Parts(one), Parts(other))
    guard one.rest.lowercasedASCII == other.rest.lowercasedASCII else { return nil }
    var differences: [String] = []
    switch (one.scheme, other.scheme) {
    case let (a?, b?) where a != b: differences.append("by http:// in place of https://")
    case (nil, let scheme?), (let scheme?, nil): differences.append("by \(scheme) at the beginning, which one lacks")
    default: break
    }
    if one.slashes != other.slashes {
      let isOne = abs(one.slashes - other.slashes) == 1
      differences.append("by \(isOne ? "a slash" : "slashes") at the end")
    }
    let sameScheme = one.scheme == other.scheme && one.schemeText != other.schemeText
    if one.rest != other.rest || sameScheme { differences.append("by upper and lower case") }
    description = "only \(differences.joined(separator: " and "))"
  }

  /// What is left of an identifier without these differences, to find the similar ones among many.
  static func core(_ identifier: ByteString) -> ByteString { Parts(identifier).rest.lowercasedASCII }

  private struct Parts {
    /// The scheme in lower case; nil if it is neither http nor https.
    let scheme: String?
    let schemeText: ByteString
    let rest: ByteString
    let slashes: Int

    init(_ identifier: ByteString) {
      let bytes = identifier.bytes
      let scheme = ["https://", "http://"].first { scheme in
        bytes.count >= scheme.utf8.count && ByteString(Array(bytes[..<scheme.utf8.count])).lowercasedASCII == scheme
      }
      let start = scheme?.utf8.count ?? 0
      var end = bytes.count
      while end > start, bytes[end - 1] == UInt8(ascii: "/") { end -= 1 }
      self.scheme = scheme
      schemeText = ByteString(scheme == nil ? [] : Array(bytes[..<start]))
      rest = ByteString(Array(bytes[start..<end]))
      slashes = bytes.count - end
    }
  }
}
