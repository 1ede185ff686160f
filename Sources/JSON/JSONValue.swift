public import Bytes

/// A JSON value (RFC 8259) as it was written: numbers keep their text, objects their order and repetitions.
///
/// The reader is our own, because input from outside is checked by how it is written. `JSONDecoder` merges repeated
/// members, takes 1.0e3 for a whole number, and brings a second module into every program that mints.
///
/// Strings and names of members are bytes, because the author of the text may be hostile.
public enum JSONValue: Equatable, Sendable {
  /// A JSON object, members in order.
  case object([Member])
  /// A JSON array.
  case array([JSONValue])
  /// A JSON string, escapes undone, in UTF-8.
  case string(ByteString)
  /// A JSON number, as it was written: ASCII by its grammar.
  case number(String)
  /// `true` or `false`.
  case bool(Bool)
  /// `null`.
  case null

  /// A name and a value of an object.
  public struct Member: Equatable, Sendable {
    /// Its name, escapes undone, in UTF-8.
    public let name: ByteString
    /// Its value.
    public let value: JSONValue
  }

  /// The first member of that name, byte for byte, if this is an object that has one.
  public subscript(name: String) -> JSONValue? {
    members.first { $0.name == name }?.value
  }

  /// The members, if this is an object.
  public var members: [Member] {
    guard case .object(let members) = self else { return [] }
    return members
  }

  /// The names that occur more than once, each once, sorted by bytes.
  public var repeatedNames: [ByteString] {
    var seen: Set<ByteString> = []
    var repeated: Set<ByteString> = []
    for member in members where !seen.insert(member.name).inserted { repeated.insert(member.name) }
    return repeated.sorted()
  }

  /// Whether this is an object.
  public var isObject: Bool {
    if case .object = self { true } else { false }
  }
}
