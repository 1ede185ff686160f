import Bytes
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
      fail: "The algorithm is \(Printable.quote(algorithm)); Apple takes ES256 alone.")
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
        "header.kid.key", keyID == expected, pass: "It is the ID of the given key.",
        fail: "The given key is \(expected), so Apple would verify with another key than the one that signed.")
    } catch {
      inspection.add("header.kid", .fail, "\(error)")
    }
  }

  /// Apple does not list `typ`, so nothing about it can be refused.
  private func checkType(into inspection: inout Inspection) {
    switch header["typ"] {
    case nil: inspection.add("header.typ", .pass, "There is no typ, and Apple asks for none.")
    case .string("JWT"): inspection.add("header.typ", .pass, "The typ is JWT.")
    default: inspection.add("header.typ", .warning, "The typ is not JWT; Apple asks for none, other tools may.")
    }
  }
}
