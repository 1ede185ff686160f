import Bytes

/// An entity tag (RFC 9110 §8.8.3).
struct EntityTag: Equatable, Sendable {
  /// Whether it begins with `W/`.
  let isWeak: Bool
  /// What is between the quotes.
  let opaque: [UInt8]

  init(isWeak: Bool, opaque: [UInt8]) {
    self.isWeak = isWeak
    self.opaque = opaque
  }

  /// Parses a field value; nil if it is not an entity tag, or contains bytes other than ASCII, which some clients would
  /// not send back unchanged.
  init?(_ value: String) {
    let bytes = Array(value.utf8)
    var scanner = FieldScanner()
    guard let tag = scanner.entityTag(in: bytes.span), scanner.isAtEnd(in: bytes.span),
      bytes.allSatisfy({ $0 < 0x80 })
    else { return nil }
    self.init(isWeak: tag.isWeak, opaque: Array(bytes[tag.opaque]))
  }

  /// A strong one made from the content: its hash and its length.
  init(ofContent content: [UInt8]) {
    var opaque: [UInt8] = []
    opaque.append(hexadecimal: ContentHash.of(content))
    opaque.append(UInt8(ascii: "-"))
    opaque.append(decimal: content.count)
    self.init(isWeak: false, opaque: opaque)
  }

  /// The tag for the same content in another coding: no longer the same bytes, so weak (RFC 9110 §8.8.3.3).
  var weakened: EntityTag { EntityTag(isWeak: true, opaque: opaque) }

  /// As the field has it.
  var fieldValue: String {
    (isWeak ? "W/\"" : "\"") + String(decoding: opaque, as: UTF8.self) + "\""
  }
}

extension FieldScanner {
  /// Passes an entity tag; nil if none stands here. Unlike in quoted strings, a backslash is a byte like any other.
  mutating func entityTag(in bytes: Span<UInt8>) -> (isWeak: Bool, opaque: Range<Int>)? {
    var isWeak = false
    if take("W", in: bytes) {
      guard take("/", in: bytes) else { return nil }
      isWeak = true
    }
    guard take("\"", in: bytes) else { return nil }
    let start = index
    while !isAtEnd(in: bytes), bytes[index] > 0x20, bytes[index] != 0x7f, bytes[index] != UInt8(ascii: "\"") {
      advance()
    }
    let opaque = start..<index
    return take("\"", in: bytes) ? (isWeak, opaque) : nil
  }
}
