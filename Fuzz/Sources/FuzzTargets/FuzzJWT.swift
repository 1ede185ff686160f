import Access
import DeveloperToken

/// Treats the input as a JWT, and as header and claims of a correctly signed JWT. The content
/// of a signed JWT determines the result. An unsigned JWT must be refused.
func fuzzJWT(_ bytes: [UInt8]) {
  precondition(verdict(bytes) == nil, "nobody has the key")

  // The bytes before the first NUL are the header. The bytes after it are the claims.
  let parts = bytes.split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
  let token = Issuer.shared.token(header: parts[0], claims: parts.count > 1 ? parts[1] : Issuer.claims)
  guard let subject = verdict(token) else { return }
  precondition((subject ?? "-").utf8.count <= 255)
  // A change of one signature character makes the signature invalid.
  var changed = token
  changed[token.count - 10] = changed[token.count - 10] == 0x41 ? 0x42 : 0x41
  precondition(verdict(changed) == nil)
}

/// Returns the subject of an accepted JWT, which is nil if it has none. Returns nil for a refused JWT.
private func verdict(_ compact: [UInt8]) -> String?? {
  let rules = JWTRules(
    issuer: "https://id.example.com/", audiences: ["music"],
    requiredClaims: compact.count % 2 == 0 ? [] : [.init(name: "scope", values: ["a"])])
  do throws(JWTRefusal) {
    let jwt = try JWT(compact: compact.span)
    let verified = try jwt.verify(by: Issuer.shared.keys, rules: rules, now: 1_795_000_000)
    precondition(jwt.algorithm == .es256 && jwt.issuer?.text == rules.issuer && verified.expiresAt > 1_794_999_940)
    return .some(verified.subject?.text)
  } catch {
    precondition(error.reason.description.hasPrefix("jwt_"))
    precondition(error.description.utf8.count < 256, "a sentence, and nothing of the token's")
    return nil
  }
}

/// The key of one run.
private struct Issuer {
  static let shared: Issuer = {
    do { return try Issuer() } catch { fatalError("\(error)") }
  }()
  static let claims = Array(#"{"iss":"https://id.example.com/","aud":"music","exp":1795000300,"scope":"a"}"#.utf8)

  let keys: JSONWebKeySet
  private let key: SigningKey

  private init() throws {
    key = try SigningKey.generate(keyID: KeyID("ABC123DEFG"))
    // The DER of a P-256 public key ends with its coordinates.
    let base64 = key.publicKeyPEM.split(separator: "\n").dropFirst().dropLast().joined()
    let point = Self.decode(base64).suffix(64)
    let (x, y) = (base64URL(Array(point.prefix(32))), base64URL(Array(point.suffix(32))))
    let jwk = #"{"kty":"EC","crv":"P-256","kid":"k","x":"\#(text(x))","y":"\#(text(y))"}"#
    keys = try JSONWebKeySet(Array("{\"keys\":[\(jwk)]}".utf8))
  }

  func token(header: [UInt8], claims: [UInt8]) -> [UInt8] {
    let input = base64URL(header) + [UInt8(ascii: ".")] + base64URL(claims)
    var signature: [UInt8] = []
    guard (try? key.sign(input.span, appendingTo: &signature)) != nil else { fatalError("no signature") }
    return input + [UInt8(ascii: ".")] + base64URL(signature)
  }

  private static func decode(_ text: String) -> [UInt8] {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    let bits = text.utf8.compactMap { alphabet.firstIndex(of: $0) }.flatMap { six in (0..<6).map { six >> (5 - $0) & 1 }
    }
    return stride(from: 0, to: bits.count - 7, by: 8).map { start in
      UInt8(bits[start..<(start + 8)].reduce(0) { $0 << 1 | $1 })
    }
  }
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
