import HTTPTypes

/// What a stored response is found by: the normalised target of its request, byte for byte.
///
/// The hash is computed once, before the cache takes its lock, by the hasher that each process seeds differently.
/// Callers choose the targets, so they must not be able to choose ones that collide. The key compares bytes, not
/// strings: Swift treats texts that differ in Unicode normalisation as equal, but an origin does not.
public struct CacheKey: Hashable, Sendable {
  private let hash: Int
  let bytes: [UInt8]

  /// The key with these bytes.
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
    var hasher = Hasher()
    // Safe: the hasher reads the bytes within the closure only.
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    hash = hasher.finalize()
  }

  /// The key with the UTF-8 bytes of `text`.
  public init(_ text: String) {
    self.init(Array(text.utf8))
  }

  /// A hash for the few places that keep no more than that.
  package var fingerprint: UInt64 { UInt64(bitPattern: Int64(hash)) }

  /// Feeds the hash that stands ready.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(hash)
  }

  /// Whether the bytes are the same.
  public static func == (left: CacheKey, right: CacheKey) -> Bool {
    left.hash == right.hash && left.bytes == right.bytes
  }
}

/// Which requests a response is for, as its `Vary` has it (RFC 9111 §4.1): those that are sent upstream with the same
/// values of the fields that it names.
///
/// Compared is what we send, not what the caller sent us: a field that we never pass on (Cookie, Origin) is absent every
/// time, so a response that varies by it is the same for everybody.
struct VariantSelector: Sendable, Equatable {
  /// Each field that counts, with its value then.
  private let values: [Value]

  private struct Value: Sendable, Equatable {
    let name: HTTPField.Name
    let value: String?
  }

  /// The most names in a `Vary`; a real response has fewer.
  private static let mostNames = 16

  /// Nil if no request selects the response, as with `Vary: *`, or if the field cannot be read.
  ///
  /// Two names do not count. `Accept-Encoding`: the store makes either coding of the other. `Authorization`: it is the
  /// proxy's own and means the same each time, while its value changes with every new token.
  init?(_ fields: HTTPFields, sent: HTTPFields) {
    var values: [Value] = []
    for line in fields[values: .vary] {
      let bytes = Array(line.utf8)
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

  /// Whether a request that is sent upstream with these fields selects the response.
  func matches(_ sent: HTTPFields) -> Bool {
    values.allSatisfy { sent[$0.name] == $0.value }
  }

  /// The names, for the response's own `Vary`.
  var names: [HTTPField.Name] { values.map(\.name) }

  /// About what it takes, in bytes.
  var cost: Int { values.reduce(0) { $0 + 96 + ($1.value?.utf8.count ?? 0) } }
}
