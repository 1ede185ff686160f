import Bytes
import DeveloperToken
import JSON

/// A public key of a JWK Set (RFC 7517 §4) that can verify signatures of JWTs.
struct JSONWebKey: Sendable, Equatable {
  let keyID: ByteString?
  /// The only algorithm that it is for, if it says so.
  let algorithm: JWTAlgorithm?
  let key: PublicKey

  /// Private members of every kind of key (RFC 7518 §6.2.2, §6.3.2, §6.4; RFC 8037 §2).
  private static let privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]

  /// - Throws: `UnusableKey` if the key is private, has another purpose, or is of an unknown kind.
  init(_ value: JSONValue) throws(UnusableKey) {
    guard value.isObject else { throw .init("it is not a JSON object.") }
    guard value.repeatedNames.isEmpty else { throw .init("it has a member twice.") }
    try Self.checkSecrecy(value)
    try Self.checkPurpose(value)
    key = try Self.material(value)
    algorithm = try Self.algorithm(value, of: key.kind)
    keyID = try Self.keyID(value)
  }

  /// Whether signatures by this algorithm may be this key's: decided by the key alone (RFC 8725 §3.1).
  func isFor(_ algorithm: JWTAlgorithm) -> Bool {
    key.kind.algorithms.contains(algorithm) && (self.algorithm ?? algorithm) == algorithm
  }

  // MARK: Purpose

  private static func checkSecrecy(_ value: JSONValue) throws(UnusableKey) {
    guard !privateMembers.contains(where: { value[$0] != nil }), value["kty"] != .string("oct") else {
      throw .init(
        "IT IS NOT PUBLIC. Everyone who has read it can sign as the issuer: replace it, and publish only its public half."
      )
    }
  }

  private static func checkPurpose(_ value: JSONValue) throws(UnusableKey) {
    guard [nil, .string("sig")].contains(value["use"]) else { throw .init("its use is not “sig”.") }
    switch value["key_ops"] {
    case nil: return
    case .array(let operations)? where operations.contains(.string("verify")): return
    default: throw .init("its key_ops do not include “verify”.")
    }
  }

  private static func algorithm(_ value: JSONValue, of kind: PublicKey.Kind) throws(UnusableKey) -> JWTAlgorithm? {
    guard let name = value["alg"] else { return nil }
    guard case .string(let name) = name, let algorithm = JWTAlgorithm(name),
      kind.algorithms.contains(algorithm)
    else {
      throw .init("its alg is not one of \(kind.algorithms.map(\.rawValue).sorted().joined(separator: ", ")).")
    }
    return algorithm
  }

  private static func keyID(_ value: JSONValue) throws(UnusableKey) -> ByteString? {
    guard let value = value["kid"] else { return nil }
    guard case .string(let text) = value, (1...JWTHeader.keyIDLimit).contains(text.count) else {
      throw .init("its kid is not a string of 1 to \(JWTHeader.keyIDLimit) bytes.")
    }
    return text
  }

  // MARK: Material

  private static func material(_ value: JSONValue) throws(UnusableKey) -> PublicKey {
    switch (value["kty"], value["crv"]) {
    case (.string("EC"), .string("P-256")):
      return try .p256(x: bytes("x", of: value), y: bytes("y", of: value))
    case (.string("RSA"), _): return try .rsa(modulus: bytes("n", of: value), exponent: bytes("e", of: value))
    case (.string("OKP"), .string("Ed25519")): return try .ed25519(bytes("x", of: value))
    default: throw .init("it is neither RSA, nor EC on P-256, nor Ed25519.")
    }
  }

  private static func bytes(_ name: String, of value: JSONValue) throws(UnusableKey) -> [UInt8] {
    guard case .string(let text)? = value[name], let bytes = Base64.decodeURL(text.bytes.span) else {
      throw .init("its \(name) is not base64url.")
    }
    return bytes
  }
}
