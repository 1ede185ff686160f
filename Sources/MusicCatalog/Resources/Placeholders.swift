import Bytes
import JSON

/// Names in braces in the texts of attributes, which stand for values.
extension JSONValue {
  /// What takes the place of a name in braces.
  enum Replacement {
    /// A value. Without one, the attribute does not exist.
    case value(JSONValue?)
    /// The name, still in its braces.
    case name
  }

  /// Returns the value with others in place of names, also in the members of an object. A text that is only one name
  /// becomes the value itself. Returns nil if a value is missing.
  func filled(_ replacement: (ByteString) -> Replacement) -> JSONValue? {
    switch self {
    case .object(let members):
      return .object(
        members.compactMap { member in
          member.value.filled(replacement).map { .init(name: member.name, value: $0) }
        })
    case .string(let text) where text.bytes.contains(UInt8(ascii: "{")):
      var output: [UInt8] = []
      var rest = text.bytes[...]
      while let open = rest.firstIndex(of: UInt8(ascii: "{")),
        let close = rest[open...].firstIndex(of: UInt8(ascii: "}"))
      {
        output += rest[..<open]
        switch replacement(ByteString(Array(rest[(open + 1)..<close]))) {
        case .value(nil): return nil
        case .value(let value?) where open == 0 && close == text.count - 1: return value
        case .value(let value?): output += value.string?.bytes ?? value.bytes
        case .name: output += rest[open...close]
        }
        rest = rest[(close + 1)...]
      }
      return .string(ByteString(output + rest))
    default: return self
    }
  }
}

/// What `defaults` and templates of attributes may name: `{id}`, `{name}`, `{position}`, `{artwork}`, and `{parent.…}`
/// for an attribute of the containing resource. Names that depend on the request stay.
struct AttributeFiller {
  let key: ResourceKey
  let own: [JSONValue.Member]
  var parent: Resource?
  var position: Int?

  /// Returns the resource's own attributes, and the defaults that it does not have. Null means none.
  func filled(with defaults: JSONValue?) -> [JSONValue.Member] {
    let others = defaults?.members.filter { other in !own.contains { $0.name == other.name } } ?? []
    let filled = JSONValue.object(others).filled { name in
      switch name {
      case "id": .value(.string(key.id))
      case "name": .value(own.first { $0.name == "name" }?.value)
      case "position": .value(position.map { .whole($0) })
      case "artwork": .value(Artwork(of: key).document)
      case _ where name.bytes.starts(with: "parent.".utf8):
        .value(parent?[ByteString(Array(name.bytes.dropFirst(7)))])
      default: .name
      }
    }
    return (own + (filled?.members ?? [])).filter { $0.value != .null }
  }
}
