import Bytes
import JSON

/// The public keys of an issuer of JWTs: the usable keys of a JWK Set (RFC 7517 §5). Keys for other purposes or of
/// other kinds are ignored, as §5 requires, with a finding for the operator. If two keys share a `kid`, the server
/// tries both. §4.5 advises against that, but rotation by hand leads to it.
public struct JSONWebKeySet: Sendable {
  /// The most bytes of a set: room for the maximum number of keys of the largest size, with certificates.
  public static let limit = 262_144
  /// The most keys in a set. Most providers have two to five, some nearly ten.
  public static let maximumKeys = 64
  /// The most keys to try on a JWT, because a provider may publish two with one name. It bounds a stranger's work.
  static let maximumCandidates = 2

  /// The findings for the operator, each a sentence.
  public let findings: [String]
  let keys: [JSONWebKey]

  /// The number of usable keys.
  public var count: Int { keys.count }
  var keyIDs: [ByteString] { keys.compactMap(\.keyID) }

  /// Parses a key set, which must have a usable key.
  public init(_ json: [UInt8]) throws(JSONWebKeySetError) {
    var findings: [String] = []
    var keys: [JSONWebKey] = []
    for (index, value) in try Self.elements(json).enumerated() {
      do throws(UnusableKey) {
        let key = try JSONWebKey(value)
        if let finding = Self.finding(key, among: keys) { findings.append("\(value.keyName(index)) \(finding)") }
        if !keys.contains(key) { keys.append(key) }
      } catch { findings.append("\(value.keyName(index)) is not used: \(error.reason)") }
    }
    guard !keys.isEmpty else {
      throw JSONWebKeySetError((["The key set has no usable key."] + findings).joined(separator: " "))
    }
    (self.keys, self.findings) = (keys, findings)
  }

  /// Returns at least one key that may have signed a JWT with this header.
  ///
  /// A key is used only with algorithms of its own kind, whatever the header says. A JWT without a `kid` is for the
  /// keys without one, of which a rotation leaves two. If there are none, exactly one key must fit: a provider with
  /// several keys must send a `kid` (OpenID Connect Core §10.1), and to try all lets a stranger choose the most work.
  func candidates(for algorithm: JWTAlgorithm, keyID: ByteString?) throws(JWTRefusal) -> [JSONWebKey] {
    let named = keys.filter { $0.keyID == keyID }
    let fitting = named.filter { $0.isFor(algorithm) }
    guard fitting.isEmpty else {
      guard fitting.count <= Self.maximumCandidates else { throw .ambiguousKey }
      return fitting
    }
    guard keyID == nil else { throw named.isEmpty ? .unknownKey : .keyMismatch }
    let others = keys.filter { $0.isFor(algorithm) }
    guard !others.isEmpty else { throw .unknownKey }
    guard others.count == 1 else { throw .ambiguousKey }
    return others
  }

  private static func elements(_ json: [UInt8]) throws(JSONWebKeySetError) -> [JSONValue] {
    guard json.count <= limit else { throw .init("The key set is longer than \(limit) bytes.") }
    guard let value = JSONReader.read(json), value.isObject else { throw .init(notAnObject(json)) }
    guard value.repeatedNames.isEmpty else { throw .init("The key set repeats a member.") }
    guard case .array(let elements)? = value["keys"] else { throw .init(withoutKeys(value)) }
    guard elements.count <= maximumKeys else {
      throw .init("The key set has \(elements.count) keys; the maximum is \(maximumKeys).")
    }
    return elements
  }

  private static func finding(_ key: JSONWebKey, among others: [JSONWebKey]) -> String? {
    guard let keyID = key.keyID else { return "has no kid: the server uses it only for JWTs without one." }
    let hasRival = others.contains { $0.keyID == keyID && $0.key != key.key }
    return hasRival ? "has the kid of another key; the server tries both on JWTs with this kid." : nil
  }

  private static func notAnObject(_ json: [UInt8]) -> String {
    let start = json.drop { $0 <= 0x20 }
    if start.starts(with: "-----BEGIN".utf8) {
      return "The key set is PEM; it must be a JWK Set, JSON of the form {\"keys\": […]} (RFC 7517)."
    }
    if start.starts(with: "<".utf8) { return "The key set is a web page, not JSON: the address is wrong." }
    return "The key set is not a JSON object of the form {\"keys\": […]} (RFC 7517)."
  }

  private static func withoutKeys(_ value: JSONValue) -> String {
    if case .string(let address)? = value["jwks_uri"] {
      return "The key set is the provider's discovery document; its jwks_uri is the address of the key set: "
        + "\(Printable.quote(address, limit: 200)). Write that address, or leave jwksURL out."
    }
    if value["kty"] != nil { return "The key set is a single key; write it as {\"keys\": [ that key ]}." }
    return "The key set has no array “keys” (RFC 7517 §5)."
  }
}

extension JSONValue {
  /// Returns the name of a key in a finding: its position from 1, and its `kid` if that can be printed.
  fileprivate func keyName(_ index: Int) -> String {
    guard case .string(let keyID)? = self["kid"] else { return "Key \(index + 1)" }
    return "Key \(index + 1), \(Printable.quote(keyID)),"
  }
}

/// The reason why bytes are not a set of keys that can verify JWTs.
public struct JSONWebKeySetError: Error, Sendable, Equatable, CustomStringConvertible {
  /// One sentence with “The key set” as its subject: what is wrong, and how to correct it if that is known.
  public let description: String

  init(_ description: String) { self.description = description }
}

/// A public key of a JWK Set (RFC 7517 §4) that can verify signatures of JWTs.
struct JSONWebKey: Sendable, Equatable {
  let keyID: ByteString?
  /// The only algorithm that the key is for; nil if the key does not name one.
  let algorithm: JWTAlgorithm?
  let key: PublicKey

  /// The private members of every kind of key (RFC 7518 §6.2.2, §6.3.2, §6.4; RFC 8037 §2).
  private static let privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]

  init(_ value: JSONValue) throws(UnusableKey) {
    guard value.isObject else { throw .init("it is not a JSON object.") }
    guard value.repeatedNames.isEmpty else { throw .init("it repeats a member.") }
    try Self.checkSecrecy(value)
    try Self.checkPurpose(value)
    key = try Self.material(value)
    algorithm = try Self.algorithm(value, of: key.kind)
    keyID = try Self.keyID(value)
  }

  /// Returns whether the key may make signatures by this algorithm. Only the key decides (RFC 8725 §3.1).
  func isFor(_ algorithm: JWTAlgorithm) -> Bool {
    key.kind.algorithms.contains(algorithm) && (self.algorithm ?? algorithm) == algorithm
  }

  private static func checkSecrecy(_ value: JSONValue) throws(UnusableKey) {
    guard !privateMembers.contains(where: { value[$0] != nil }), value["kty"] != .string("oct") else {
      throw .init(
        "IT IS NOT PUBLIC. Every reader of it can sign as the issuer: replace it, and publish only its public half.")
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
    guard case .string(let name) = name, let algorithm = JWTAlgorithm(name), kind.algorithms.contains(algorithm) else {
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

  private static func material(_ value: JSONValue) throws(UnusableKey) -> PublicKey {
    switch (value["kty"], value["crv"]) {
    case (.string("EC"), .string("P-256")): return try .p256(x: bytes("x", of: value), y: bytes("y", of: value))
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

/// The source of an identity provider's keys: a JWK Set (RFC 7517 §5).
public enum KeySetSource: Sendable, Hashable {
  case file(String)
  /// An `https` URL, and the path of a PEM file with the CAs of its server; nil for the system's store.
  case url(String, caFile: String?)
  /// An issuer with an `https` URL, whose discovery document has the URL of the keys, and the same CAs for both.
  case issuer(String, caFile: String?)
}
