import Bytes
import JSON

/// Apple's rules for the claims, except for `origin`.
struct ClaimRules {
  let claims: JSONValue
  let now: Int
  private static let known: Set<ByteString> = ["iss", "iat", "exp", "origin"]
  /// The year 5138 in seconds, 1973 in milliseconds: what is beyond was meant as milliseconds.
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

  /// The time, if it is whole seconds.
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
      fail: "The iat is \(issuedAt - now) s in the future by this machine's clock. Apple refuses such a token; a clock"
        + " that runs fast by half a minute is enough, so iat should be backdated.")
  }

  private func checkExpiry(_ expiresAt: Int, _ issuedAt: Int?, into inspection: inout Inspection) {
    inspection.add(
      "claims.exp.past", expiresAt > now, pass: "It has \(expiresAt - now) s left.",
      fail: "It expired \(now - expiresAt) s ago.")
    inspection.add(
      "claims.exp.cap.now", expiresAt - now <= Self.cap, pass: "It expires within \(Self.cap) s of now.",
      fail: "It expires \(expiresAt - now) s from now; Apple's limit is \(Self.cap) s (six months).")
    guard let issuedAt else { return }
    inspection.add(
      "claims.exp.cap.iat", expiresAt - issuedAt <= Self.cap, pass: "It lives at most \(Self.cap) s.",
      fail: "It lives \(expiresAt - issuedAt) s from iat; Apple's limit is \(Self.cap) s (six months).")
    guard expiresAt <= issuedAt else { return }
    inspection.add("claims.exp.order", .fail, "It expires before it is issued.")
  }

  private func checkForeign(into inspection: inout Inspection) {
    for name in ["aud", "sub"] where claims[name] != nil {
      inspection.add(
        "claims.\(name)", .fail,
        "It has \(name), which belongs to other services of Apple's (Sign in with Apple, App Store Connect); a"
          + " developer token for Apple Music has none.")
    }
    if claims["root_https_origin"] != nil {
      inspection.add(
        "claims.root_https_origin", .fail, "It has root_https_origin, which is for Apple's own web player alone.")
    }
    let foreign: Set<ByteString> = ["aud", "sub", "root_https_origin"]
    let unknown = claims.members.map(\.name).filter { !Self.known.contains($0) && !foreign.contains($0) }
    guard !unknown.isEmpty else { return }
    let names = unknown.prefix(8).map { Printable.quote($0) }.joined(separator: ", ")
    inspection.add("claims.unknown", .warning, "It has claims that Apple does not list: \(names).")
  }
}
