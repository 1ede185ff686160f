import Bytes

/// A path whose every segment has been judged, in its canonical form: no escape is left in it.
///
/// A segment may hold unreserved characters only (RFC 3986 §2.3), of which all of Apple's identifiers are made. They are
/// the ones that mean the same plain and percent-encoded, so undoing their escapes changes nothing, and what is sent
/// offers no second reading: there is no escape to decode once more, no separator to discover, no parameter to drop.
struct PathSegments {
  /// The canonical path: a slash in front of each segment.
  private(set) var path: [UInt8] = []
  private var ranges: [Range<Int>] = []
  private let limits: TargetLimits

  /// Judges a path as it was received. Throws what is wrong with it.
  init(_ raw: Span<UInt8>, limits: TargetLimits) throws(TargetRefusal) {
    self.limits = limits
    guard raw.count <= limits.path else { throw .pathTooLong }
    guard !raw.isEmpty, raw[0] == UInt8(ascii: "/") else { throw .notAbsolute }
    path.reserveCapacity(raw.count)
    ranges.reserveCapacity(8)
    path.append(UInt8(ascii: "/"))
    var start = 1
    var index = 1
    while index < raw.count {
      if raw[index] == UInt8(ascii: "/") {
        guard index + 1 < raw.count || path.count == start else { throw .trailingSlash }
        try endSegment(from: start)
        path.append(UInt8(ascii: "/"))
        start = path.count
        index += 1
      } else {
        path.append(try Self.character(at: &index, in: raw))
      }
    }
    try endSegment(from: start)
  }

  /// How many there are.
  var count: Int { ranges.count }

  /// Whether the segment at `index` exists and is `name`, byte for byte.
  func has(_ name: StaticString, at index: Int) -> Bool {
    guard index < ranges.count, ranges[index].count == name.utf8CodeUnitCount else { return false }
    // Safe: a static string is there for ever, and as long as it says.
    return unsafe UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
      .elementsEqual(path[ranges[index]])
  }

  /// The segment at `index` if it is a storefront: two lower-case ASCII letters, as Apple writes them.
  func storefront(at index: Int) throws(TargetRefusal) -> String {
    guard index < ranges.count else { throw .unknownPath }
    let code = path[ranges[index]]
    guard code.count == 2, code.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }) else {
      throw .storefront
    }
    return String(decoding: code, as: UTF8.self)
  }

  /// The character at `index`, its escape undone; moves behind it.
  private static func character(at index: inout Int, in raw: Span<UInt8>) throws(TargetRefusal) -> UInt8 {
    let byte = raw[index]
    guard byte == UInt8(ascii: "%") else {
      try judge(byte)
      index += 1
      return byte
    }
    guard let decoded = raw.escape(at: index) else { throw .malformedEscape }
    switch decoded {
    case UInt8(ascii: "/"): throw .encodedSlash
    case UInt8(ascii: "%"): throw .doubleEncoding
    default: try judge(decoded)
    }
    index += 3
    return decoded
  }

  private static func judge(_ byte: UInt8) throws(TargetRefusal) {
    if byte.isUnreserved { return }
    switch byte {
    case _ where byte.isControlOrSpace: throw .controlByte
    case 0x80...: throw .notASCII
    case UInt8(ascii: "\\"): throw .backslash
    case UInt8(ascii: ";"): throw .pathParameter
    case UInt8(ascii: "#"): throw .fragment
    default: throw .reservedCharacter
    }
  }

  private mutating func endSegment(from start: Int) throws(TargetRefusal) {
    let segment = path[start...]
    guard !segment.isEmpty else { throw .emptySegment }
    guard segment.count <= limits.segment else { throw .segmentTooLong }
    guard ranges.count < limits.segments else { throw .tooManySegments }
    // Not only `.` and `..` (RFC 3986 §3.3): some systems take longer runs for the latter.
    guard !segment.allSatisfy({ $0 == UInt8(ascii: ".") }) else { throw .dotSegment }
    ranges.append(start..<path.count)
  }
}
