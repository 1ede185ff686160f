import Bytes
import JSON

/// A JOSE header (RFC 7515 §4) that asks for nothing but a signature's verification by a key of ours.
struct JWTHeader: Sendable {
  /// Longest `kid` that is looked at, in bytes; providers' have some dozens.
  static let keyIDLimit = 256

  let algorithm: JWTAlgorithm
  let keyID: ByteString?

  /// The types of access tokens (RFC 9068 §2.1) and of JWTs in general (RFC 7519 §5.1), in lower case, with
  /// and without `application/`, which may be left out (RFC 7515 §4.1.9).
  ///
  /// A token with a type of its own was made for another purpose, and mostly under other rules. For example, the holder
  /// of a proof-of-possession key signs such a proof itself (RFC 8725 §3.11, RFC 9449 §4.2).
  private static let types: [ByteString] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"]

  /// Members that contain a key or its address (RFC 7515 §4.1.2, .3, .5, .6). An issuer that uses them does not rely on
  /// the configured key set, so the server refuses them. A thumbprint (`x5t`) only names a key. The server ignores it,
  /// as RFC 7515 §4 requires for members that it does not understand.
  private static let keyMembers = ["jwk", "jku", "x5c", "x5u"]

  init(_ value: JSONValue) throws(JWTRefusal) {
    guard value.repeatedNames.isEmpty else { throw .malformed(.repeatedMember) }
    // Before the algorithm: an extension may change what the rest means.
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
