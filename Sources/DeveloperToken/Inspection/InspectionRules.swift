import Bytes
import Cryptography
import HTTPMessages
import JSON

/// Apple's rules for the header.
struct HeaderRules {
  let header: JSONValue
  let key: VerificationKey?

  func check(into inspection: inout Inspection) {
    MemberRules.checkRepeats(of: header, rule: "header.members", into: &inspection)
    checkAlgorithm(into: &inspection)
    checkKeyID(into: &inspection)
    checkType(into: &inspection)
  }

  private func checkAlgorithm(into inspection: inout Inspection) {
    guard case .string(let algorithm)? = header["alg"] else {
      return inspection.add("header.alg", .fail, "The header has no alg; it must be ES256.")
    }
    inspection.algorithm = algorithm
    inspection.add(
      "header.alg", algorithm == "ES256", pass: "The algorithm is ES256.",
      fail: "The algorithm is \(Printable.quote(algorithm)); Apple accepts only ES256.")
  }

  private func checkKeyID(into inspection: inout Inspection) {
    guard case .string(let text)? = header["kid"] else {
      return inspection.add("header.kid", .fail, "The header has no kid; it must be the ID of the MusicKit key.")
    }
    inspection.keyID = text
    do {
      let keyID = try KeyID(text.text)
      inspection.add("header.kid", .pass, "The kid \(keyID) has the form of a key ID.")
      guard let expected = key?.keyID else { return }
      inspection.add(
        "header.kid.key", keyID == expected, pass: "The kid is the ID of the given key.",
        fail: "The kid names another key than the given key \(expected), so Apple would verify with the wrong key.")
    } catch {
      inspection.add("header.kid", .fail, "\(error)")
    }
  }

  /// Checks `typ`. Apple does not list it, so no value of it fails.
  private func checkType(into inspection: inout Inspection) {
    switch header["typ"] {
    case nil: inspection.add("header.typ", .pass, "There is no typ, and Apple does not require one.")
    case .string("JWT"): inspection.add("header.typ", .pass, "The typ is JWT.")
    default:
      inspection.add("header.typ", .warning, "The typ is not JWT. Apple does not require a typ, but other tools may.")
    }
  }
}

/// Apple's rules for the claims, except for `origin`.
struct ClaimRules {
  let claims: JSONValue
  let now: Int
  private static let known: Set<ByteString> = ["iss", "iat", "exp", "origin"]
  /// 10¹¹: the year 5138 in seconds, 1973 in milliseconds. Larger values are meant as milliseconds.
  private static let millisecondsBegin = 100_000_000_000
  private static let cap = TokenPolicy.maximumLifetime

  func check(into inspection: inout Inspection) {
    MemberRules.checkRepeats(of: claims, rule: "claims.members", into: &inspection)
    checkIssuer(into: &inspection)
    inspection.issuedAt = checkTime("iat", into: &inspection)
    inspection.expiresAt = checkTime("exp", into: &inspection)
    if let issuedAt = inspection.issuedAt { checkIssuedAt(issuedAt, into: &inspection) }
    if let expiresAt = inspection.expiresAt { checkExpiry(expiresAt, inspection.issuedAt, into: &inspection) }
    checkForeign(into: &inspection)
  }

  private func checkIssuer(into inspection: inout Inspection) {
    guard case .string(let text)? = claims["iss"] else {
      return inspection.add("claims.iss", .fail, "There is no iss; it must be the team ID.")
    }
    inspection.issuer = text
    do {
      let team = try TeamID(text.text)
      let isKeyID = inspection.keyID.map { $0 == team.description } ?? false
      inspection.add(
        "claims.iss", !isKeyID, pass: "The iss \(team) has the form of a team ID.",
        fail: "The iss and the kid are both \(team); iss must be the team ID, kid the key ID.")
    } catch {
      inspection.add("claims.iss", .fail, "\(error)")
    }
  }

  /// Returns the time; nil unless it is whole seconds.
  private func checkTime(_ name: String, into inspection: inout Inspection) -> Int? {
    let rule = "claims.\(name)"
    switch claims[name] {
    case nil:
      inspection.add(rule, .fail, "There is no \(name); it must be whole seconds since 1970.")
    case .number(let text):
      guard let time = Int(text) else {
        inspection.add(rule, .fail, "The \(name) is \(Printable.quote(text)); it must be a whole number of seconds.")
        return nil
      }
      guard time < Self.millisecondsBegin else {
        inspection.add(rule, .fail, "The \(name) is \(time), which looks like milliseconds; it must be seconds.")
        return nil
      }
      guard time >= 0 else {
        inspection.add(rule, .fail, "The \(name) is before 1970.")
        return nil
      }
      inspection.add(rule, .pass, "The \(name) is whole seconds.")
      return time
    case .string:
      inspection.add(rule, .fail, "The \(name) is a string; it must be a number, without quotes.")
    default:
      inspection.add(rule, .fail, "The \(name) is not a number; it must be whole seconds since 1970.")
    }
    return nil
  }

  private func checkIssuedAt(_ issuedAt: Int, into inspection: inout Inspection) {
    inspection.add(
      "claims.iat.future", issuedAt <= now, pass: "The token is not from the future.",
      fail: "The iat is \(issuedAt - now) s in the future by this machine's clock, and Apple refuses such a"
        + " token. A clock that is half a minute fast is enough, so backdate iat.")
  }

  private func checkExpiry(_ expiresAt: Int, _ issuedAt: Int?, into inspection: inout Inspection) {
    inspection.add(
      "claims.exp.past", expiresAt > now, pass: "The token has \(expiresAt - now) s left.",
      fail: "The token expired \(now - expiresAt) s ago.")
    inspection.add(
      "claims.exp.cap.now", expiresAt - now <= Self.cap, pass: "The token expires within \(Self.cap) s from now.",
      fail: "The token expires \(expiresAt - now) s from now; Apple's limit is \(Self.cap) s (six months).")
    guard let issuedAt else { return }
    inspection.add(
      "claims.exp.cap.iat", expiresAt - issuedAt <= Self.cap, pass: "The lifetime is at most \(Self.cap) s.",
      fail: "The lifetime is \(expiresAt - issuedAt) s from iat; Apple's limit is \(Self.cap) s (six months).")
    guard expiresAt <= issuedAt else { return }
    inspection.add("claims.exp.order", .fail, "The exp is before the iat.")
  }

  private func checkForeign(into inspection: inout Inspection) {
    for name in ["aud", "sub"] where claims[name] != nil {
      inspection.add(
        "claims.\(name)", .fail,
        "The token has \(name), which belongs to other services of Apple (Sign in with Apple, App Store Connect); a"
          + " developer token for Apple Music has none.")
    }
    if claims["root_https_origin"] != nil {
      inspection.add(
        "claims.root_https_origin", .fail, "The token has root_https_origin, which is only for Apple's own web player.")
    }
    let foreign: Set<ByteString> = ["aud", "sub", "root_https_origin"]
    let unknown = claims.members.map(\.name).filter { !Self.known.contains($0) && !foreign.contains($0) }
    guard !unknown.isEmpty else { return }
    let names = unknown.prefix(8).map { Printable.quote($0) }.joined(separator: ", ")
    inspection.add("claims.unknown", .warning, "The token has claims that Apple does not list: \(names).")
  }
}

/// Apple's rules for the `origin` claim: an array of concrete origins, one of which is that of the browser.
struct OriginRules {
  let claim: JSONValue?
  let origin: Origin?

  func check(into inspection: inout Inspection) {
    switch claim {
    case nil: inspection.add("claims.origin", .pass, "There is no origin claim: the token works from every origin.")
    case .array(let elements): check(elements, into: &inspection)
    case .string:
      inspection.add("claims.origin", .fail, "The origin claim is a string; it must be an array of strings.")
    default: inspection.add("claims.origin", .fail, "The origin claim is not an array of strings.")
    }
  }

  private func check(_ elements: [JSONValue], into inspection: inout Inspection) {
    let texts = elements.compactMap { element in
      if case .string(let text) = element { text } else { nil }
    }
    inspection.origins = texts
    let problems = texts.compactMap(problem)
    if elements.isEmpty {
      inspection.add("claims.origin", .fail, "The origin claim is empty, so it allows no origin; leave it out instead.")
    } else if texts.count < elements.count {
      inspection.add("claims.origin", .fail, "The origin claim contains values that are not strings.")
    } else if !problems.isEmpty {
      inspection.add("claims.origin", .fail, problems.prefix(8).joined(separator: " "))
    } else {
      inspection.add("claims.origin", .pass, "The origin claim is an array of concrete origins.")
    }
    checkMatch(texts, into: &inspection)
  }

  /// Returns the reason why a text can never equal the origin that a browser sends; nil if it can.
  private func problem(_ text: ByteString) -> String? {
    do {
      let origin = try Origin(text.text)
      return text == origin.description
        ? nil : "The origin \(Printable.quote(text)) never equals the Origin of a browser, which is “\(origin)”."
    } catch {
      return error.description
    }
  }

  private func checkMatch(_ texts: [ByteString], into inspection: inout Inspection) {
    guard let origin else {
      return inspection.add(
        "claims.origin.match", .unknown,
        "The token works only in requests with one of these origins; --origin names none.")
    }
    inspection.add(
      "claims.origin.match", texts.contains { $0 == origin.description },
      pass: "\(origin) is one of the token's origins.",
      fail: "\(origin) is not one of the token's origins, so Apple would refuse the token from there.")
  }
}

/// The rules for the signature: 64 raw bytes, made by the key.
struct SignatureRules {
  let jws: JWS
  let key: VerificationKey?

  func check(into inspection: inout Inspection) {
    let signature = jws.signature.span
    guard let raw = ECDSASignature(raw: signature) else {
      return checkDER(signature, into: &inspection)
    }
    inspection.add("signature.form", .pass, "The signature is 64 raw bytes.")
    guard let key else { return addUnknown(into: &inspection) }
    inspection.add(
      "signature", key.verifies(raw, of: jws.signingInput.span), pass: "The given key made the signature.",
      fail: "The given key did not make this signature: another key signed the token, or the token was changed.")
  }

  /// Checks a signature in DER. RFC 7518 §3.4 requires `r‖s`, but most libraries produce DER by default.
  private func checkDER(_ signature: Span<UInt8>, into inspection: inout Inspection) {
    guard let converted = ECDSASignature(der: signature) else {
      inspection.add("signature.form", .fail, "The signature has \(signature.count) bytes; ES256 has exactly 64.")
      return
    }
    inspection.add(
      "signature.form", .fail,
      "The signature is DER (ASN.1), as OpenSSL makes it; a JWS has the raw 64 bytes r‖s (RFC 7518 §3.4).")
    guard let key else { return addUnknown(into: &inspection) }
    inspection.add(
      "signature", key.verifies(converted, of: jws.signingInput.span),
      pass: "The given key made the signature; only its form is wrong.",
      fail: "The given key did not make this signature.")
  }

  private func addUnknown(into inspection: inout Inspection) {
    inspection.add("signature", .unknown, "The signature is not verified, because there is no key to verify it with.")
  }
}

/// The rules for every JSON object in a token.
enum MemberRules {
  /// Checks for repeated names. Parsers differ in which value they take, so they would read different tokens (RFC 7519
  /// §4).
  static func checkRepeats(of object: JSONValue, rule: String, into inspection: inout Inspection) {
    let names = object.repeatedNames.map { Printable.quote($0) }
    inspection.add(
      rule, names.isEmpty, pass: "No member is repeated.",
      fail: "The token repeats \(names.joined(separator: ", ")); parsers differ in which value they use.")
  }
}
