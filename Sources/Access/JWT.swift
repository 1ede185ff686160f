public import Bytes
import Cryptography
import JSON

/// A JSON Web Token (RFC 7519) in compact serialization: decoded, but not verified. The server accepts only signed
/// tokens (RFC 7515) and follows RFC 8725: it checks the header, but never obeys it.
public struct JWT: Sendable {
  /// The most bytes of a JWT, more than a header field may have.
  public static let limit = JWS.limit

  let jws: JWS
  let header: JWTHeader
  let claims: JWTClaims

  /// Decodes a token, and checks its form and its header.
  public init(compact: Span<UInt8>) throws(JWTRefusal) {
    do throws(JWSError) { jws = try JWS(compact: compact) } catch {
      switch error {
      case .tooLong: throw .tooLong
      case .parts: throw .malformed(.parts)
      case .notBase64URL: throw .malformed(.encoding)
      }
    }
    guard let header = jws.header else { throw .malformed(.header) }
    self.header = try JWTHeader(header)
    guard let claims = JSONReader.read(jws.payload) else { throw .malformed(.claims) }
    self.claims = try JWTClaims(claims)
  }

  /// The algorithm in the header, not verified.
  public var algorithm: JWTAlgorithm { header.algorithm }
  /// The key ID in the header, not verified.
  public var keyID: ByteString? { header.keyID }
  /// The issuer in the claims, not verified. Use it only to find the rules that apply.
  public var issuer: ByteString? { claims.issuer }

  /// Checks the algorithm and the claims against the rules at `now`, in seconds since 1970, but not the signature.
  /// Returns the claims, which are not valid before the signature is verified.
  ///
  /// It comes first, so an expired token is expired even without its key, and only a valid one may cause a fetch.
  @discardableResult
  public func check(_ rules: JWTRules, now: Int) throws(JWTRefusal) -> VerifiedJWT {
    guard rules.algorithms.contains(algorithm) else { throw .algorithmNotAllowed }
    let (subject, expiresAt) = try claims.check(rules, now: now)
    return VerifiedJWT(subject: subject, expiresAt: expiresAt, keyID: keyID)
  }

  func verifySignature(by keys: JSONWebKeySet) throws(JWTRefusal) {
    let candidates = try keys.candidates(for: algorithm, keyID: keyID)
    guard candidates.contains(where: { isSigned(by: $0.key) }) else { throw refusalOfSignature }
  }

  func isSigned(by key: PublicKey) -> Bool { key.verifies(jws.signature.span, of: jws.signingInput.span, algorithm) }

  var refusalOfSignature: JWTRefusal { keyID == nil ? .unknownKey : .badSignature }

  /// Checks the claims against the rules at `now`, in seconds since 1970, and verifies the signature.
  public func verify(by keys: JSONWebKeySet, rules: JWTRules, now: Int) throws(JWTRefusal) -> VerifiedJWT {
    let token = try check(rules, now: now)
    try verifySignature(by: keys)
    return token
  }
}

/// The content of a JWT with a verified signature and accepted claims.
public struct VerifiedJWT: Sendable, Equatable {
  /// The `sub` (RFC 7519 §4.1.2), which names the user, 1 to 255 bytes; nil if the token has none.
  public let subject: ByteString?
  /// The `exp` in whole seconds since 1970. The server accepts the token for a minute longer, because clocks differ.
  public let expiresAt: Int
  /// The `kid` of the signing key; nil if the token names none.
  public let keyID: ByteString?
}

/// A JOSE header (RFC 7515 §4) that requests only verification by a key of the configured key set.
struct JWTHeader: Sendable {
  /// The most bytes of a `kid`; a typical one has some dozens.
  static let keyIDLimit = 256

  let algorithm: JWTAlgorithm
  let keyID: ByteString?

  /// The types of access tokens (RFC 9068 §2.1) and of all JWTs (RFC 7519 §5.1), also without the prefix (RFC 7515
  /// §4.1.9). A token with its own type was made for another purpose, mostly under other rules: the holder of a
  /// proof-of-possession key signs such a proof itself (RFC 8725 §3.11, RFC 9449 §4.2).
  private static let types: [ByteString] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"]

  /// Members that contain a key or its address (RFC 7515 §4.1.2, .3, .5, .6). An issuer that uses them does not rely on
  /// the configured key set, so the server refuses them. A thumbprint (`x5t`) only names a key. The server ignores it,
  /// as RFC 7515 §4 requires for members that it does not understand.
  private static let keyMembers = ["jwk", "jku", "x5c", "x5u"]

  init(_ value: JSONValue) throws(JWTRefusal) {
    guard value.repeatedNames.isEmpty else { throw .malformed(.repeatedMember) }
    // This check precedes the algorithm, because an extension may change the meaning of the rest.
    guard value["crit"] == nil, [nil, .bool(true)].contains(value["b64"]) else { throw .criticalHeader }
    guard case .string(let name)? = value["alg"], let algorithm = JWTAlgorithm(name)
    else { throw .unsupportedAlgorithm }
    guard !Self.keyMembers.contains(where: { value[$0] != nil }) else { throw .keyInHeader }
    if let type = value["typ"] {
      guard case .string(let text) = type, Self.types.contains(text.lowercasedASCII) else { throw .wrongType }
    }
    self.algorithm = algorithm
    keyID = try Self.keyID(value["kid"])
  }

  private static func keyID(_ value: JSONValue?) throws(JWTRefusal) -> ByteString? {
    guard let value else { return nil }
    guard case .string(let text) = value, (1...keyIDLimit).contains(text.count) else { throw .malformed(.keyID) }
    return text
  }
}

/// The claims of a JWT (RFC 7519 §4), and the check against the rules of a client.
struct JWTClaims: Sendable {
  /// The tolerated clock difference in seconds. Servers with a time daemon never differ by more.
  static let leeway = 60
  /// The most bytes of a `sub` (OpenID Connect Core §2); the server counts rates for each `sub`.
  static let subjectLimit = 255

  private let object: JSONValue

  init(_ value: JSONValue) throws(JWTRefusal) {
    guard value.isObject else { throw .malformed(.claims) }
    guard value.repeatedNames.isEmpty else { throw .malformed(.repeatedMember) }
    object = value
  }

  /// The `iss`; nil if it is not a string.
  var issuer: ByteString? { object["iss"]?.string }
  /// The `aud`, not verified; nil if it is missing or has the wrong type.
  var audiences: [ByteString]? { object["aud"]?.texts }
  /// Whether there is an `aud` of any type, not verified.
  var hasAudience: Bool { object["aud"] != nil }

  /// The strings of a claim, not verified; nil if it is missing or has the wrong type.
  func texts(_ name: String) -> [ByteString]? { object[name]?.texts }

  /// The `exp`, not verified; nil if it is missing or has the wrong type.
  var expiry: Int? { object["exp"].flatMap(NumericDate.init)?.floor }

  /// Checks the claims against the rules, and returns those that the server uses afterwards.
  func check(_ rules: JWTRules, now: Int) throws(JWTRefusal) -> (subject: ByteString?, expiresAt: Int) {
    try checkIssuer(rules.issuer)
    try checkAudience(rules.audiences)
    let expiresAt = try checkTimes(now: now)
    let subject = try subject()
    for claim in rules.requiredClaims where !meets(claim) { throw .requiredClaim(claim.name) }
    return (subject, expiresAt)
  }

  private func checkIssuer(_ expected: String) throws(JWTRefusal) {
    guard let value = object["iss"] else { throw .wrongIssuer }
    guard let issuer = value.string else { throw .invalidClaim(.issuer) }
    guard issuer == expected else { throw .wrongIssuer }
  }

  private func checkAudience(_ ours: [String]?) throws(JWTRefusal) {
    guard let value = object["aud"] else {
      guard ours == nil else { throw .wrongAudience }
      return
    }
    guard let audiences = value.texts else { throw .invalidClaim(.audience) }
    guard let ours else { return }
    guard audiences.contains(where: { audience in ours.contains { audience == $0 } }) else { throw .wrongAudience }
  }

  /// Checks `exp`, `nbf` and `iat`, and returns the time of expiry.
  private func checkTimes(now: Int) throws(JWTRefusal) -> Int {
    guard let expiry = try date(.expiry)?.floor else { throw .noExpiry }
    guard now < expiry + Self.leeway else { throw .expired(seconds: now - expiry) }
    let start = try date(.notBefore)?.ceiling ?? now
    guard start - Self.leeway <= now else { throw .notYetValid(seconds: start - now) }
    let issue = try date(.issuedAt)?.floor ?? now
    guard issue - Self.leeway <= now else { throw .issuedInFuture(seconds: issue - now) }
    return expiry
  }

  private func date(_ claim: JWTRefusal.Claim) throws(JWTRefusal) -> NumericDate? {
    guard let value = object[claim.rawValue] else { return nil }
    guard let date = NumericDate(value) else { throw .invalidClaim(claim) }
    return date
  }

  private func subject() throws(JWTRefusal) -> ByteString? {
    guard let value = object["sub"] else { return nil }
    guard let subject = value.string, (1...Self.subjectLimit).contains(subject.count)
    else { throw .invalidClaim(.subject) }
    return subject
  }

  private func meets(_ required: JWTRules.RequiredClaim) -> Bool {
    guard let value = object[required.name] else { return false }
    return Self.words(value, of: required.name).contains { word in required.values.contains { word == $0 } }
  }

  /// Returns the words of a claim. Scopes are words in one string (RFC 8693 §4.2); Microsoft Entra calls the claim
  /// `scp`. The server does not split any other claim: "not admin" is not "admin".
  private static func words(_ value: JSONValue, of name: String) -> [ByteString] {
    guard ["scope", "scp"].contains(name), let text = value.string else { return value.texts ?? [] }
    return text.bytes.split(separator: UInt8(ascii: " ")).map { ByteString(Array($0)) }
  }
}

extension JSONValue {
  /// The strings of an array that contains only strings. A single string counts as an array of one (RFC 7519 §4.1.3).
  fileprivate var texts: [ByteString]? {
    guard case .array(let elements) = self else { return string.map { [$0] } }
    let texts = elements.compactMap(\.string)
    return texts.count == elements.count ? texts : nil
  }
}

/// A time in a JWT (RFC 7519 §2): a JSON number of seconds since 1970, which may have a fraction.
struct NumericDate {
  private static let textLimit = 32
  /// From 1970 to the last second of the year 9999. A larger number is in milliseconds, or an attempt at overflow.
  private static let range = 0.0...253_402_300_799.0

  private let seconds: Double

  init?(_ value: JSONValue) {
    guard case .number(let text) = value, text.utf8.count <= Self.textLimit, let seconds = Double(text),
      Self.range.contains(seconds)
    else { return nil }
    self.seconds = seconds
  }

  var floor: Int { Int(seconds.rounded(.down)) }
  var ceiling: Int { Int(seconds.rounded(.up)) }
}
