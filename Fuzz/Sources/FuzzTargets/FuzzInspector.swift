import Cryptography
import DeveloperToken

/// Inspects the input as a token, and as the claims of a correctly signed token.
func fuzzInspector(_ bytes: [UInt8]) {
  let inspector = Inspector(key: Keys.shared.key.verificationKey, now: 1_795_000_000)
  let inspection = inspector.inspect(bytes.span)
  check(inspection)
  precondition(!inspection.checks.contains { $0.rule == "signature" && $0.verdict == .pass }, "nobody has the key")

  guard let token = try? Keys.shared.token(claims: bytes) else { fatalError("no signature") }
  let signed = inspector.inspect(token.span)
  check(signed)
  guard token.count <= JWS.limit else { return }
  precondition(signed.checks.contains { $0.rule == "signature" && $0.verdict == .pass }, "signed as it should be")
}

private func check(_ inspection: Inspection) {
  precondition(!inspection.checks.isEmpty)
  for check in inspection.checks {
    precondition(check.explanation.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "harmless on a terminal")
    precondition(check.explanation.utf8.count < 4096)
  }
}

/// The key of one run.
private struct Keys {
  static let shared: Keys = {
    do { return try Keys() } catch { fatalError("\(error)") }
  }()

  let key: SigningKey
  private let header = Array(#"{"alg":"ES256","kid":"ABC123DEFG","typ":"JWT"}"#.utf8)

  private init() throws { key = try SigningKey.generate(keyID: KeyID("ABC123DEFG")) }

  func token(claims: [UInt8]) throws -> [UInt8] {
    let input = base64URL(header) + [UInt8(ascii: ".")] + base64URL(claims)
    var signature: [UInt8] = []
    try key.sign(input.span, appendingTo: &signature)
    return input + [UInt8(ascii: ".")] + base64URL(signature)
  }
}
