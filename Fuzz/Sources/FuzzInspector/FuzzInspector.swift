import Cryptography
import DeveloperToken

/// Entry point of libFuzzer: inspects the input as a token, and as the claims of a correctly signed token.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzInspector(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  let inspector = Inspector(key: Keys.shared.key.verificationKey, now: 1_795_000_000)
  let inspection = inspector.inspect(bytes.span)
  check(inspection)
  precondition(!inspection.checks.contains { $0.rule == "signature" && $0.verdict == .pass }, "nobody has the key")

  guard let token = try? Keys.shared.token(claims: bytes) else { fatalError("no signature") }
  let signed = inspector.inspect(token.span)
  check(signed)
  guard token.count <= JWS.limit else { return 0 }
  precondition(signed.checks.contains { $0.rule == "signature" && $0.verdict == .pass }, "signed as it should be")
  return 0
}

private func check(_ inspection: Inspection) {
  precondition(!inspection.checks.isEmpty)
  for check in inspection.checks {
    precondition(check.explanation.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "harmless on a terminal")
    precondition(check.explanation.utf8.count < 4096)
  }
}

/// The key of one run.
struct Keys {
  static let shared: Keys = {
    do { return try Keys() } catch { fatalError("\(error)") }
  }()

  let key: SigningKey
  private let header = Array(#"{"alg":"ES256","kid":"ABC123DEFG","typ":"JWT"}"#.utf8)

  private init() throws { key = try SigningKey.generate(keyID: KeyID("ABC123DEFG")) }

  func token(claims: [UInt8]) throws -> [UInt8] {
    let input = encode(header) + [UInt8(ascii: ".")] + encode(claims)
    var signature: [UInt8] = []
    try key.makeSigner().sign(input.span, appendingTo: &signature)
    return input + [UInt8(ascii: ".")] + encode(signature)
  }

  /// Encodes base64url bit by bit, without the encoder under test.
  private func encode(_ bytes: [UInt8]) -> [UInt8] {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    return stride(from: 0, to: bytes.count * 8, by: 6).map { bit in
      let (index, shift) = (bit / 8, bit % 8)
      let pair = UInt16(bytes[index]) << 8 | (index + 1 < bytes.count ? UInt16(bytes[index + 1]) : 0)
      return alphabet[Int(pair >> UInt16(10 - shift)) & 63]
    }
  }
}
