import Bytes
import Cryptography
import HTTPMessages
import JSON

extension Inspection {
  mutating func checkHeader(_ header: JSONValue, _ key: VerificationKey?) {
    checkRepeats(of: header, rule: "header.members")
    checkAlgorithm(header["alg"])
    checkKeyID(header["kid"], key)
    checkType(header["typ"])
    // A recipient must refuse extensions that it does not understand (RFC 7515 §4.1.11), and Apple documents none.
    guard header["crit"] != nil else { return }
    add("header.crit", .fail, "The header has crit, which names extensions that Apple does not document; leave it out.")
  }

  private mutating func checkAlgorithm(_ value: JSONValue?) {
    guard case .string(let algorithm)? = value else {
      return add("header.alg", .fail, "The header has no alg; it must be ES256.")
    }
    self.algorithm = algorithm
    add(
      "header.alg", algorithm == "ES256", pass: "The algorithm is ES256.",
      fail: "The algorithm is \(Printable.quote(algorithm)); Apple accepts only ES256.")
  }

  private mutating func checkKeyID(_ value: JSONValue?, _ key: VerificationKey?) {
    guard case .string(let text)? = value else {
      return add("header.kid", .fail, "The header has no kid; it must be the ID of the MusicKit key.")
    }
    keyID = text
    do {
      let keyID = try KeyID(text.text)
      add("header.kid", .pass, "The kid \(keyID) has the form of a key ID.")
      guard let expected = key?.keyID else { return }
      add(
        "header.kid.key", keyID == expected, pass: "The kid is the ID of the given key.",
        fail: "The kid names another key than the given key \(expected), so Apple would verify with the wrong key.")
    } catch { add("header.kid", .fail, "\(error)") }
  }

  /// Checks `typ`. Apple does not list it, so no value of it fails.
  private mutating func checkType(_ value: JSONValue?) {
    switch value {
    case nil: add("header.typ", .pass, "There is no typ, and Apple does not require one.")
    case .string("JWT"): add("header.typ", .pass, "The typ is JWT.")
    default: add("header.typ", .warning, "The typ is not JWT. Apple does not require a typ, but other tools may.")
    }
  }
}

/// Apple's rules for the claims, except for `origin`.
extension Inspection {
  /// The claims that Apple lists, and those that have a rule of their own.
  private static let known: Set<ByteString> = ["iss", "iat", "exp", "origin", "aud", "sub", "root_https_origin"]
  /// 10¹¹: the year 5138 in seconds, 1973 in milliseconds. Larger values are meant as milliseconds.
  private static let millisecondsBegin = 100_000_000_000
  private static let cap = TokenPolicy.maximumLifetime

  mutating func checkClaims(_ claims: JSONValue, now: Int) {
    checkRepeats(of: claims, rule: "claims.members")
    checkIssuer(claims["iss"])
    issuedAt = checkTime("iat", in: claims)
    expiresAt = checkTime("exp", in: claims)
    if let issuedAt {
      add(
        "claims.iat.future", issuedAt <= now, pass: "The token is not from the future.",
        fail: "The iat is \(issuedAt - now) s in the future by this machine's clock, and Apple refuses such a"
          + " token. A clock that is half a minute fast is enough, so backdate iat.")
    }
    if claims["nbf"] != nil, let notBefore = checkTime("nbf", in: claims) {
      add(
        "claims.nbf.future", notBefore <= now, pass: "The nbf is not in the future.",
        fail: "The nbf is \(notBefore - now) s in the future, and the token is not valid before (RFC 7519 §4.1.5).")
    }
    if let expiresAt { checkExpiry(expiresAt, now: now) }
    checkForeign(claims)
  }

  private mutating func checkIssuer(_ value: JSONValue?) {
    guard case .string(let text)? = value else {
      return add("claims.iss", .fail, "There is no iss; it must be the team ID.")
    }
    issuer = text
    do {
      let team = try TeamID(text.text)
      let isKeyID = keyID.map { $0 == team.description } ?? false
      add(
        "claims.iss", !isKeyID, pass: "The iss \(team) has the form of a team ID.",
        fail: "The iss and the kid are both \(team); iss must be the team ID, kid the key ID.")
    } catch { add("claims.iss", .fail, "\(error)") }
  }

  /// Returns the time; nil unless it is whole seconds.
  private mutating func checkTime(_ name: String, in claims: JSONValue) -> Int? {
    let problem: String
    switch (claims[name], claims[name]?.integer) {
    case (nil, _): problem = "There is no \(name); it must be whole seconds since 1970."
    case (_, let time?) where time >= Self.millisecondsBegin:
      problem = "The \(name) is \(time), which looks like milliseconds; it must be seconds."
    case (_, let time?) where time < 0: problem = "The \(name) is before 1970."
    case (_, let time?):
      add("claims.\(name)", .pass, "The \(name) is whole seconds.")
      return time
    case (.number(let text), nil):
      problem = "The \(name) is \(Printable.quote(text)); it must be a whole number of seconds."
    case (.string, nil): problem = "The \(name) is a string; it must be a number, without quotes."
    default: problem = "The \(name) is not a number; it must be whole seconds since 1970."
    }
    add("claims.\(name)", .fail, problem)
    return nil
  }

  private mutating func checkExpiry(_ expiresAt: Int, now: Int) {
    add(
      "claims.exp.past", expiresAt > now, pass: "The token has \(expiresAt - now) s left.",
      fail: "The token expired \(now - expiresAt) s ago.")
    add(
      "claims.exp.cap.now", expiresAt - now <= Self.cap, pass: "The token expires within \(Self.cap) s from now.",
      fail: "The token expires \(expiresAt - now) s from now; Apple's limit is \(Self.cap) s (six months).")
    guard let issuedAt else { return }
    add(
      "claims.exp.cap.iat", expiresAt - issuedAt <= Self.cap, pass: "The lifetime is at most \(Self.cap) s.",
      fail: "The lifetime is \(expiresAt - issuedAt) s from iat; Apple's limit is \(Self.cap) s (six months).")
    guard expiresAt <= issuedAt else { return }
    add("claims.exp.order", .fail, "The exp is before the iat.")
  }

  private mutating func checkForeign(_ claims: JSONValue) {
    for name in ["aud", "sub"] where claims[name] != nil {
      add(
        "claims.\(name)", .fail,
        "The token has \(name), which belongs to other services of Apple (Sign in with Apple, App Store Connect); a"
          + " developer token for Apple Music has none.")
    }
    if claims["root_https_origin"] != nil {
      add(
        "claims.root_https_origin", .fail, "The token has root_https_origin, which is only for Apple's own web player.")
    }
    let unknown = claims.members.map(\.name).filter { !Self.known.contains($0) }
    guard !unknown.isEmpty else { return }
    let names = unknown.prefix(8).map { Printable.quote($0) }.joined(separator: ", ")
    add("claims.unknown", .warning, "The token has claims that Apple does not list: \(names).")
  }
}

/// Apple's rules for the `origin` claim: an array of concrete origins, one of which is that of the browser.
extension Inspection {
  mutating func checkOrigins(_ claim: JSONValue?, _ origin: Origin?) {
    switch claim {
    case nil: add("claims.origin", .pass, "There is no origin claim: the token works from every origin.")
    case .array(let elements): checkOrigins(elements, origin)
    case .string: add("claims.origin", .fail, "The origin claim is a string; it must be an array of strings.")
    default: add("claims.origin", .fail, "The origin claim is not an array of strings.")
    }
  }

  private mutating func checkOrigins(_ elements: [JSONValue], _ origin: Origin?) {
    let texts = elements.compactMap(\.string)
    origins = texts
    let problems = texts.compactMap(Self.problem)
    if elements.isEmpty {
      add("claims.origin", .fail, "The origin claim is empty, so it allows no origin; leave it out instead.")
    } else if texts.count < elements.count {
      add("claims.origin", .fail, "The origin claim contains values that are not strings.")
    } else if !problems.isEmpty {
      add("claims.origin", .fail, problems.prefix(8).joined(separator: " "))
    } else {
      add("claims.origin", .pass, "The origin claim is an array of concrete origins.")
    }
    checkMatch(origin)
  }

  /// Returns the reason why a text can never equal the origin that a browser sends; nil if it can.
  private static func problem(_ text: ByteString) -> String? {
    do {
      let origin = try Origin(text.text)
      if text == origin.description { return nil }
      return "The origin \(Printable.quote(text)) never equals the Origin of a browser, which is “\(origin)”."
    } catch { return error.description }
  }

  private mutating func checkMatch(_ origin: Origin?) {
    guard let origin else {
      return add(
        "claims.origin.match", .unknown,
        "The token works only in requests with one of these origins; --origin names none.")
    }
    add(
      "claims.origin.match", origins.contains { $0 == origin.description },
      pass: "\(origin) is one of the token's origins.",
      fail: "\(origin) is not one of the token's origins, so Apple would refuse the token from there.")
  }
}

/// The rules for the signature: 64 raw bytes, made by the key.
extension Inspection {
  /// A signature in DER has the wrong form. RFC 7518 §3.4 requires `r‖s`, but most libraries produce DER by default.
  mutating func checkSignature(of jws: JWS, by key: VerificationKey?) {
    let bytes = jws.signature.span
    let raw = ECDSASignature(raw: bytes)
    guard let signature = raw ?? ECDSASignature(der: bytes) else {
      return add("signature.form", .fail, "The signature has \(bytes.count) bytes; ES256 has exactly 64.")
    }
    add(
      "signature.form", raw != nil, pass: "The signature is 64 raw bytes.",
      fail: "The signature is DER (ASN.1), as OpenSSL makes it; a JWS has the raw 64 bytes r‖s (RFC 7518 §3.4).")
    guard let key else {
      return add("signature", .unknown, "The signature is not verified, because there is no key to verify it with.")
    }
    let (form, cause) =
      raw == nil ? ("; only its form is wrong", "") : ("", ": another key signed the token, or the token was changed")
    add(
      "signature", key.verifies(signature, of: jws.signingInput.span), pass: "The given key made the signature\(form).",
      fail: "The given key did not make this signature\(cause).")
  }
}

extension Inspection {
  /// Parsers differ in which value of a repeated name they take, so they would read different tokens (RFC 7519 §4).
  fileprivate mutating func checkRepeats(of object: JSONValue, rule: String) {
    let names = object.repeatedNames.map { Printable.quote($0) }
    add(
      rule, names.isEmpty, pass: "No member is repeated.",
      fail: "The token repeats \(names.joined(separator: ", ")); parsers differ in which value they use.")
  }
}
