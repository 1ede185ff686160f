import Bytes
import HTTP1
import HTTPTypes

/// The key of a stored response: the normalised target of its request, byte for byte.
///
/// The hash is computed once, before the cache takes its lock, with the hasher that each process seeds differently.
/// Callers choose the targets, so they must not be able to choose colliding targets. The key compares bytes, not
/// strings: Swift treats texts that differ in Unicode normalisation as equal, but an origin does not.
public struct CacheKey: Hashable, Sendable {
  private let hash: Int
  let bytes: [UInt8]

  /// Creates a key with these bytes.
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
    var hasher = Hasher()
    // Safe: the hasher reads the bytes within the closure only.
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    hash = hasher.finalize()
  }

  /// Creates a key with the UTF-8 bytes of `text`.
  public init(_ text: String) {
    self.init(Array(text.utf8))
  }

  /// The hash, for the few places that store only a hash.
  package var fingerprint: UInt64 { UInt64(bitPattern: Int64(hash)) }

  /// Feeds the precomputed hash.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(hash)
  }

  /// Returns whether both keys have the same bytes.
  public static func == (left: CacheKey, right: CacheKey) -> Bool {
    left.hash == right.hash && left.bytes == right.bytes
  }
}

/// The requests that a response matches, by its `Vary` (RFC 9111 §4.1): their upstream requests have the same values of
/// the named fields.
///
/// The comparison uses the fields that the proxy sends, not the fields that the caller sends. A field that the proxy
/// never forwards (Cookie, Origin) is always absent, so a response that varies by it is the same for all callers.
struct VariantSelector: Sendable, Equatable {
  /// Each field that counts, with its value in the original request.
  private let values: [Value]

  private struct Value: Sendable, Equatable {
    let name: HTTPField.Name
    let value: String?
  }

  /// The most names in a `Vary`. Real responses have fewer.
  private static let mostNames = 16

  /// Returns nil if no request matches the response (`Vary: *`), or if the field is malformed.
  ///
  /// Two names do not count. `Accept-Encoding`: the store converts between both codings. `Authorization`: the
  /// credential is the proxy's own and always has the same meaning, while its value changes with every new token.
  init?(_ fields: FieldLines, sent: FieldLines) {
    var values: [Value] = []
    for line in fields.lines where fields.bytes.span.equalsIgnoringCase(line.name, "vary") {
      let bytes = Array(fields.bytes[line.value])
      var scanner = FieldScanner()
      while let element = scanner.directive(in: bytes.span) {
        let text = String(decoding: bytes[element.name], as: UTF8.self)
        guard element.argument == .absent, text != "*", let name = HTTPField.Name(text), values.count < Self.mostNames
        else { return nil }
        if name == .acceptEncoding || name == .authorization || values.contains(where: { $0.name == name }) { continue }
        values.append(Value(name: name, value: sent[name]))
      }
    }
    self.values = values
  }

  /// Returns whether an upstream request with these fields matches the response.
  func matches(_ sent: FieldLines) -> Bool {
    values.allSatisfy { sent[$0.name] == $0.value }
  }

  /// The names of the fields, for the `Vary` that callers receive.
  var names: [HTTPField.Name] { values.map(\.name) }

  /// The approximate size in memory, in bytes.
  var cost: Int { values.reduce(0) { $0 + 96 + ($1.value?.utf8.count ?? 0) } }
}
