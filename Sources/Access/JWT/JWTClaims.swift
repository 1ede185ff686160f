import Bytes
import JSON

/// The claims of a JWT (RFC 7519 §4), and how they stand to rules.
struct JWTClaims: Sendable {
  /// Seconds by which clocks may differ: as much as signing services and servers with a time daemon ever do.
  static let leeway = 60
  /// Longest `sub` in bytes, as OpenID Connect Core §2 bounds it: rates are counted for each.
  static let subjectLimit = 255

  private let object: JSONValue

  init(_ value: JSONValue) throws(JWTRefusal) {
    guard value.isObject else { throw .malformed(.claims) }
    guard value.repeatedNames.isEmpty else { throw .malformed(.repeatedMember) }
    object = value
  }

  /// The `iss`, if it is a string.
  var issuer: ByteString? { object["iss"]?.text }

  /// Holds them against the rules.
  ///
  /// - Returns: What of them counts from then on.
  func check(_ rules: JWTRules, now: Int) throws(JWTRefusal) -> (subject: ByteString?, expiresAt: Int) {
    try checkIssuer(rules.issuer)
    try checkAudience(rules.audiences)
    let expiresAt = try checkTimes(now: now)
    let subject = try subject()
    for claim in rules.requiredClaims where !meets(claim) { throw .requiredClaim(claim.name) }
    return (subject, expiresAt)
  }

  // MARK: Issuer and audience

  private func checkIssuer(_ expected: String) throws(JWTRefusal) {
    guard let value = object["iss"] else { throw .wrongIssuer }
    guard let issuer = value.text else { throw .invalidClaim(.issuer) }
    guard issuer == expected else { throw .wrongIssuer }
  }

  private func checkAudience(_ ours: [String]) throws(JWTRefusal) {
    guard let value = object["aud"] else { throw .wrongAudience }
    guard let audiences = value.texts else { throw .invalidClaim(.audience) }
    guard audiences.contains(where: { audience in ours.contains { audience == $0 } }) else {
      throw .wrongAudience
    }
  }

  // MARK: Times

  /// Returns when it expires.
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

  // MARK: Subject and others

  private func subject() throws(JWTRefusal) -> ByteString? {
    guard let value = object["sub"] else { return nil }
    guard let subject = value.text, (1...Self.subjectLimit).contains(subject.count) else {
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

  /// Scopes are words in one string (RFC 8693 §4.2); Microsoft Entra calls the claim `scp`. No other claim is taken
  /// apart: "not admin" is not "admin".
  private static func words(_ value: JSONValue, of name: String) -> [ByteString]? {
    guard ["scope", "scp"].contains(name), let text = value.text else { return value.texts }
    return text.bytes.split(separator: UInt8(ascii: " ")).map { ByteString(Array($0)) }
  }
}

extension JSONValue {
  fileprivate var text: ByteString? {
    if case .string(let text) = self { text } else { nil }
  }

  /// The strings of an array of nothing else; a string by itself is an array of one (RFC 7519 §4.1.3).
  fileprivate var texts: [ByteString]? {
    guard case .array(let elements) = self else { return text.map { [$0] } }
    let texts = elements.compactMap(\.text)
    return texts.count == elements.count ? texts : nil
  }
}
