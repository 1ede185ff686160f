import Bytes
import HTTP1

/// The preconditions that a cache evaluates (RFC 9111 §4.3.2, RFC 9110 §13). The cache ignores other preconditions, and
/// the proxy ignores `Range`.
public struct Preconditions: Sendable, Equatable {
  private var tags: [UInt8]?
  private var date: [UInt8]?

  /// Creates an empty set of preconditions.
  public init() {}

  /// Whether the request has no preconditions.
  public var isEmpty: Bool { tags == nil && date == nil }

  /// Adds one line of `If-None-Match`. Several lines form one list.
  public mutating func add(ifNoneMatch value: Span<UInt8>) {
    var list = tags.map { $0 + [UInt8(ascii: ",")] } ?? []
    for index in value.indices { list.append(value[index]) }
    tags = list
  }

  /// Adds the line of `If-Modified-Since`. A second line makes both invalid (RFC 9110 §13.1.3: more than one member).
  public mutating func add(ifModifiedSince value: Span<UInt8>) {
    guard date == nil else {
      date = []
      return
    }
    date = value.indices.map { value[$0] }
  }

  /// Returns whether the caller already has the representation.
  ///
  /// - Parameters:
  ///   - opaque: The text between the quotes of the entity tag. All codings share it, because `If-None-Match` uses weak
  ///     comparison (RFC 9110 §13.1.2).
  ///   - modified: Last-Modified, or otherwise Date, in seconds since the epoch (RFC 9111 §4.3.2).
  func isNotModified(byTag opaque: [UInt8]?, modified: Int, now: Int) -> Bool {
    if let tags { return Self.isListed(opaque, in: tags.span) }
    guard let date, let since = FieldDate.seconds(date.span, now: now) else { return false }
    return modified <= since
  }

  /// Returns whether the list contains the tag. A malformed element ends the list, because a 200 is always correct.
  private static func isListed(_ opaque: [UInt8]?, in list: Span<UInt8>) -> Bool {
    var scanner = FieldScanner()
    scanner.skipWhitespace(in: list)
    if scanner.take("*", in: list) {
      scanner.skipWhitespace(in: list)
      return scanner.isAtEnd(in: list)
    }
    guard let opaque else { return false }
    while !scanner.isAtEnd(in: list) {
      scanner.skipWhitespace(in: list)
      if scanner.take(",", in: list) { continue }
      if scanner.isAtEnd(in: list) { break }
      guard let tag = scanner.entityTag(in: list) else { return false }
      scanner.skipWhitespace(in: list)
      guard scanner.isAtEnd(in: list) || scanner.take(",", in: list) else { return false }
      if isEqual(tag.opaque, of: list, to: opaque) { return true }
    }
    return false
  }

  private static func isEqual(_ range: Range<Int>, of bytes: Span<UInt8>, to other: [UInt8]) -> Bool {
    range.count == other.count && other.indices.allSatisfy { bytes[range.lowerBound + $0] == other[$0] }
  }
}

/// An entity tag (RFC 9110 §8.8.3).
struct EntityTag: Equatable, Sendable {
  /// Whether it begins with `W/`.
  let isWeak: Bool
  /// The text between the quotes.
  let opaque: [UInt8]

  init(isWeak: Bool, opaque: [UInt8]) {
    self.isWeak = isWeak
    self.opaque = opaque
  }

  /// Parses a field value. Returns nil if it is not an entity tag, or if it contains bytes other than ASCII, because
  /// some clients would change them.
  init?(_ value: Span<UInt8>) {
    var scanner = FieldScanner()
    guard let tag = scanner.entityTag(in: value), scanner.isAtEnd(in: value),
      value.indices.allSatisfy({ value[$0] < 0x80 })
    else { return nil }
    var opaque: [UInt8] = []
    opaque.append(copying: value.extracting(tag.opaque))
    self.init(isWeak: tag.isWeak, opaque: opaque)
  }

  /// Parses the only `ETag` of a response. Returns nil without one.
  init?(_ fields: FieldLines) {
    guard case .single(let range) = fields.value(of: "etag") else { return nil }
    self.init(fields.bytes.span.extracting(range))
  }

  /// Creates a strong tag from the content: its hash and its length.
  init(ofContent content: [UInt8]) {
    var opaque: [UInt8] = []
    opaque.append(hexadecimal: ContentHash.of(content))
    opaque.append(UInt8(ascii: "-"))
    opaque.append(decimal: content.count)
    self.init(isWeak: false, opaque: opaque)
  }

  /// The tag for the same content in another coding. The bytes differ, so the tag is weak (RFC 9110 §8.8.3.3).
  var weakened: EntityTag { EntityTag(isWeak: true, opaque: opaque) }

  /// The tag in the syntax of the field.
  var fieldValue: [UInt8] {
    var value: [UInt8] = []
    value.reserveCapacity(opaque.count + 4)
    value.append(isWeak ? "W/\"" : "\"")
    value.append(contentsOf: opaque)
    value.append("\"")
    return value
  }
}

extension FieldScanner {
  /// Consumes an entity tag, or nil. Unlike in a quoted string, a backslash has no special meaning.
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
