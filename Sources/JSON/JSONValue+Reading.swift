public import Bytes

/// What a JSON value is, as an optional.
extension JSONValue {
  /// The elements of an array. Empty if this is not an array.
  public var elements: [JSONValue] {
    guard case .array(let elements) = self else { return [] }
    return elements
  }

  /// The bytes of a string. Nil if this is not a string.
  public var string: ByteString? {
    guard case .string(let string) = self else { return nil }
    return string
  }

  /// A whole number. Nil for other values.
  public var integer: Int? {
    guard case .number(let text) = self else { return nil }
    return Int(text)
  }

  /// The strings of an array, without its other elements.
  public var strings: [ByteString] { elements.compactMap(\.string) }
}
