public import Bytes
import Cryptography
import JSON

/// A JSON Web Token (RFC 7519) in compact serialization: decoded, but not verified.
///
/// The server accepts only signed tokens (RFC 7515) and follows RFC 8725: it checks the header, but never obeys it.
public struct JWT: Sendable {
  /// The maximum length of a JWT in bytes, more than a header field may have.
  public static let limit = JWS.limit

  let jws: JWS
  let header: JWTHeader
  let claims: JWTClaims

  /// Decodes a token, and checks its form and its header.
  ///
  /// - Throws: `JWTRefusal` if the form or the header is not acceptable.
  public init(compact: Span<UInt8>) throws(JWTRefusal) {
    do throws(JWSError) { jws = try JWS(compact: compact) } catch { throw JWTRefusal(error) }
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
}

extension JWTRefusal {
  fileprivate init(_ error: JWSError) {
    switch error {
    case .tooLong: self = .tooLong
    case .parts: self = .malformed(.parts)
    case .notBase64URL: self = .malformed(.encoding)
    }
  }
}

/// A JOSE header (RFC 7515 §4) that requests only verification by a key of the configured key set.
struct JWTHeader: Sendable {
  /// The maximum length of a `kid` in bytes; a typical `kid` has some dozens.
  static let keyIDLimit = 256

  let algorithm: JWTAlgorithm
  let keyID: ByteString?

  /// The types of access tokens (RFC 9068 §2.1) and of JWTs in general (RFC 7519 §5.1), in lower case, with
  /// and without `application/`, which may be left out (RFC 7515 §4.1.9).
  ///
  /// A token with its own type was made for another purpose, and mostly under other rules. For example, the holder
  /// of a proof-of-possession key signs such a proof itself (RFC 8725 §3.11, RFC 9449 §4.2).
  private static let types: [ByteString] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"]

  /// Members that contain a key or its address (RFC 7515 §4.1.2, .3, .5, .6). An issuer that uses them does not rely on
  /// the configured key set, so the server refuses them. A thumbprint (`x5t`) only names a key. The server ignores it,
  /// as RFC 7515 §4 requires for members that it does not understand.
  private static let keyMembers = ["jwk", "jku", "x5c", "x5u"]

  init(_ value: JSONValue) throws(JWTRefusal) {
    guard value.repeatedNames.isEmpty else { throw .malformed(.repeatedMember) }
    // This check precedes the algorithm, because an extension may change the meaning of the rest.
    guard value["crit"] == nil, [nil, .bool(true)].contains(value["b64"]) else { throw .criticalHeader }
    guard case .string(let name)? = value["alg"], let algorithm = JWTAlgorithm(name) else {
      throw .unsupportedAlgorithm
    }
    guard !Self.keyMembers.contains(where: { value[$0] != nil }) else { throw .keyInHeader }
    guard Self.isTypeTaken(value["typ"]) else { throw .wrongType }
    self.algorithm = algorithm
    keyID = try Self.keyID(value["kid"])
  }

  private static func isTypeTaken(_ value: JSONValue?) -> Bool {
    guard let value else { return true }
    guard case .string(let text) = value else { return false }
    return types.contains(text.lowercasedASCII)
  }

  private static func keyID(_ value: JSONValue?) throws(JWTRefusal) -> ByteString? {
    guard let value else { return nil }
    guard case .string(let text) = value, (1...keyIDLimit).contains(text.count) else {
      throw .malformed(.keyID)
    }
    return text
  }
}

/// The claims of a JWT (RFC 7519 §4), and the check against the rules of a client.
struct JWTClaims: Sendable {
  /// The tolerated clock difference in seconds. Servers with a time daemon never differ by more.
  static let leeway = 60
  /// The maximum length of a `sub` in bytes (OpenID Connect Core §2); the server counts rates for each `sub`.
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

  /// Checks the claims against the rules.
  ///
  /// - Returns: The claims that the server uses afterwards.
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
    guard audiences.contains(where: { audience in ours.contains { audience == $0 } }) else {
      throw .wrongAudience
    }
  }

  /// Checks `exp`, `nbf` and `iat`, and returns the time of expiry.
  private func checkTimes(now: Int) throws(JWTRefusal) -> Int {
    guard let expiry = try date(.expiry)?.floor else { throw .noExpiry }
    guard now < expiry + Self.leeway else { throw .expired(seconds: now - expiry) }
    if let start = try date(.notBefore)?.ceiling, start - Self.leeway > now {
      throw .notYetValid(seconds: start - now)
    }
    if let issue = try date(.issuedAt)?.floor, issue - Self.leeway > now {
      throw .issuedInFuture(seconds: issue - now)
    }
    return expiry
  }

  private func date(_ claim: JWTRefusal.Claim) throws(JWTRefusal) -> NumericDate? {
    guard let value = object[claim.rawValue] else { return nil }
    guard let date = NumericDate(value) else { throw .invalidClaim(claim) }
    return date
  }

  private func subject() throws(JWTRefusal) -> ByteString? {
    guard let value = object["sub"] else { return nil }
    guard let subject = value.string, (1...Self.subjectLimit).contains(subject.count) else {
      throw .invalidClaim(.subject)
    }
    return subject
  }

  private func meets(_ required: JWTRules.RequiredClaim) -> Bool {
    guard let value = object[required.name] else { return false }
    return (Self.words(value, of: required.name) ?? []).contains { word in
      required.values.contains { word == $0 }
    }
  }

  /// Returns the words of a claim. Scopes are words in one string (RFC 8693 §4.2); Microsoft Entra calls the claim
  /// `scp`. The server does not split any other claim: "not admin" is not "admin".
  private static func words(_ value: JSONValue, of name: String) -> [ByteString]? {
    guard ["scope", "scp"].contains(name), let text = value.string else { return value.texts }
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
  /// The maximum length of a number, in characters.
  private static let textLimit = 32
  /// From 1970 to the last second of the year 9999. A larger number is in milliseconds, or an attempt at overflow.
  private static let range = 0.0...253_402_300_799.0

  private let seconds: Double

  /// Returns nil unless the value is a number in that range.
  init?(_ value: JSONValue) {
    guard case .number(let text) = value, text.utf8.count <= Self.textLimit, let seconds = Double(text),
      Self.range.contains(seconds)
    else { return nil }
    self.seconds = seconds
  }

  /// The time rounded down to a whole second.
  var floor: Int { Int(seconds.rounded(.down)) }

  /// The time rounded up to a whole second.
  var ceiling: Int { Int(seconds.rounded(.up)) }
}
