import Bytes
import JSON

extension JSONValue {
  var string: String? {
    if case .string(let text) = self { text.text } else { nil }
  }

  var integer: Int? {
    if case .number(let text) = self { Int(text) } else { nil }
  }

  /// The strings of an array that contains only strings.
  var strings: [String]? {
    guard case .array(let elements) = self else { return nil }
    let strings = elements.compactMap(\.string)
    return strings.count == elements.count ? strings : nil
  }

  /// The names of an object's members, sorted.
  var names: [String] { members.map(\.name.text).sorted() }
}
