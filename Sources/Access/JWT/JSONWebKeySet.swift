import Bytes
import DeveloperToken
import JSON

/// The public keys of an issuer of JWTs: a JWK Set (RFC 7517 §5), and of it what signatures can be verified by.
///
/// Keys for other purposes or of other kinds are left out (§5 wants them ignored), with a finding for the operator.
/// Those that share a `kid`, which §4.5 advises against and rotation by hand brings about, are tried one after another.
public struct JSONWebKeySet: Sendable {
  /// Longest set that is looked at, in bytes: room for the most keys of the greatest size, certificates included.
  public static let limit = 262_144
  /// Most keys in a set. Providers have two to five; those of some are near ten.
  public static let maximumKeys = 64
  /// Most keys that are tried on one JWT, if it does not say by which one it is signed: what a stranger can make us do.
  static let maximumCandidates = 4

  /// What the operator should know, each a sentence.
  public let findings: [String]
  let keys: [JSONWebKey]

  /// How many keys can be used.
  public var count: Int { keys.count }

  /// Reads a set.
  ///
  /// - Throws: `JSONWebKeySetError` if the bytes are not a key set, or the set contains no usable key.
  public init(_ json: [UInt8]) throws(JSONWebKeySetError) {
    var findings: [String] = []
    var keys: [JSONWebKey] = []
    for (index, value) in try Self.elements(json).enumerated() {
      do throws(UnusableKey) {
        let key = try JSONWebKey(value)
        if let finding = Self.finding(key, among: keys) { findings.append("\(value.keyName(index)) \(finding)") }
        if !keys.contains(key) { keys.append(key) }
      } catch {
        findings.append("\(value.keyName(index)) is left out: \(error.reason)")
      }
    }
    guard !keys.isEmpty else {
      throw JSONWebKeySetError((["The key set has no key that can be used."] + findings).joined(separator: " "))
    }
    (self.keys, self.findings) = (keys, findings)
  }

  /// The keys that may have signed a JWT which says this of itself; one at least.
  ///
  /// A key is for algorithms of its own kind only, whatever a header says.
  func candidates(for algorithm: JWTAlgorithm, keyID: ByteString?) throws(JWTRefusal) -> [JSONWebKey] {
    var named = keys[...]
    if let keyID { named = keys.filter { $0.keyID == keyID }[...] }
    let fitting = named.filter { $0.isFor(algorithm) }
    guard !fitting.isEmpty else { throw named.isEmpty || keyID == nil ? .unknownKey : .keyMismatch }
    guard fitting.count <= Self.maximumCandidates else { throw .ambiguousKey }
    return fitting
  }

  private static func elements(_ json: [UInt8]) throws(JSONWebKeySetError) -> [JSONValue] {
    guard json.count <= limit else { throw .init("The key set is longer than \(limit) bytes.") }
    guard let value = JSONReader.read(json), value.isObject else { throw .init(notAnObject(json)) }
    guard value.repeatedNames.isEmpty else { throw .init("The key set has a member twice.") }
    guard case .array(let elements)? = value["keys"] else { throw .init(withoutKeys(value)) }
    guard elements.count <= maximumKeys else {
      throw .init("The key set has \(elements.count) keys; no more than \(maximumKeys) are taken.")
    }
    return elements
  }

  private static func finding(_ key: JSONWebKey, among others: [JSONWebKey]) -> String? {
    guard let keyID = key.keyID else { return "has no kid: only JWTs without one are verified by it." }
    let hasRival = others.contains { $0.keyID == keyID && $0.key != key.key }
    return hasRival ? "has the kid of another key; both are tried on JWTs that name it." : nil
  }

  // MARK: What is mistaken for a key set

  private static func notAnObject(_ json: [UInt8]) -> String {
    let start = json.drop { $0 <= 0x20 }
    if start.starts(with: "-----BEGIN".utf8) {
      return "The key set is PEM; it must be a JWK Set, JSON of the form {\"keys\": […]} (RFC 7517)."
    }
    if start.starts(with: "<".utf8) { return "The key set is a web page, not JSON: the address is another's." }
    return "The key set is not a JSON object of the form {\"keys\": […]} (RFC 7517)."
  }

  private static func withoutKeys(_ value: JSONValue) -> String {
    if case .string(let address)? = value["jwks_uri"] {
      return "The key set is the provider's discovery document; its jwks_uri is the address of the key set: "
        + "\(Printable.quote(address, limit: 200))."
    }
    if value["kty"] != nil { return "The key set is a single key; write it as {\"keys\": [ that key ]}." }
    return "The key set has no array “keys” (RFC 7517 §5)."
  }
}

extension JSONValue {
  /// How a finding names a key: by its place, from 1, and its `kid` if that can be printed.
  fileprivate func keyName(_ index: Int) -> String {
    guard case .string(let keyID)? = self["kid"] else { return "Key \(index + 1)" }
    return "Key \(index + 1), \(Printable.quote(keyID)),"
  }
}
