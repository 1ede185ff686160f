/// The conditions of a request that a cache evaluates (RFC 9111 §4.3.2, RFC 9110 §13). The others, and `Range`, which the
/// proxy ignores, are not its business.
public struct Preconditions: Sendable, Equatable {
  private var tags: [UInt8]?
  private var date: [UInt8]?

  /// None.
  public init() {}

  /// Whether the request has no preconditions.
  public var isEmpty: Bool { tags == nil && date == nil }

  /// Takes one line of `If-None-Match`; several are one list.
  public mutating func add(ifNoneMatch value: Span<UInt8>) {
    var list = tags.map { $0 + [UInt8(ascii: ",")] } ?? []
    for index in value.indices { list.append(value[index]) }
    tags = list
  }

  /// Takes the line of `If-Modified-Since`; a second one makes both void (RFC 9110 §13.1.3: more than one member).
  public mutating func add(ifModifiedSince value: Span<UInt8>) {
    guard date == nil else {
      date = []
      return
    }
    date = value.indices.map { value[$0] }
  }

  /// Whether a caller with these conditions already has the representation.
  ///
  /// - Parameters:
  ///   - opaque: What is between the quotes of its entity tag, which all its codings share: for `If-None-Match` the
  ///     comparison is the weak one (RFC 9110 §13.1.2).
  ///   - modified: Last-Modified, or else Date, in seconds since the epoch (RFC 9111 §4.3.2).
  func areMet(byTag opaque: [UInt8]?, modified: Int, now: Int) -> Bool {
    if let tags { return Self.isListed(opaque, in: tags.span) }
    guard let date, let since = FieldDate.seconds(String(decoding: date, as: UTF8.self), now: now) else { return false }
    return modified <= since
  }

  /// What is malformed ends the list: 200 is always right.
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
