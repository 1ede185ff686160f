import Bytes

/// The validated path of a request under `/v1`. It suffices to find the permission that the request needs.
///
/// The length of the path bounds its cost. The query and the fields cost more, so the server processes them only for
/// callers with permission. Then the request becomes a ``CatalogTarget``.
public struct CatalogPath: Sendable {
  /// The kind of the resource.
  public let kind: CatalogTarget.Kind
  /// The template of the path, one of a small fixed set: a label for logs and metrics.
  public let route: StaticString
  /// The storefront in the path, two lower-case letters. Nil if the path has none.
  public let storefront: String?
  /// The path to send upstream: the same segments without escapes, the storefront in lower case, and no slash at the end.
  let bytes: [UInt8]
  let allowsMe: Bool

  /// Validates a path.
  ///
  /// - Parameters:
  ///   - path: The path as received, with its escapes.
  ///   - allowsMe: Whether the proxy forwards `/v1/me`.
  /// - Throws: The defect of the path.
  public init(_ path: Span<UInt8>, allowsMe: Bool) throws(TargetRefusal) {
    var segments = try PathSegments(path)
    segments.lowercaseStorefront()
    (kind, route, storefront) = try segments.resource(allowsMe: allowsMe)
    (bytes, self.allowsMe) = (segments.path, allowsMe)
  }
}

/// The resource at Apple that a path names.
extension PathSegments {
  /// Returns the kind, the template of the path, and the storefront. Throws a refusal if the proxy does not forward the path.
  fileprivate func resource(
    allowsMe: Bool
  ) throws(TargetRefusal) -> (CatalogTarget.Kind, template: StaticString, storefront: String?) {
    guard has("v1", at: 0) else { throw .unknownPath }
    if has("catalog", at: 1) { return (.catalog, catalogTemplate, try storefront(at: 2)) }
    if has("storefronts", at: 1) { return (.storefronts, storefrontsTemplate, nil) }
    if has("language", at: 1), count == 4, has("tag", at: 3) {
      return (.language, "/v1/language/{storefront}/tag", try storefront(at: 2))
    }
    if has("test", at: 1), count == 2 { return (.test, "/v1/test", nil) }
    guard has("me", at: 1), count > 2 else { throw .unknownPath }
    guard allowsMe else { throw .meDisabled }
    return (.me, meTemplate, nil)
  }

  private var catalogTemplate: StaticString {
    switch count {
    case 3: "/v1/catalog/{storefront}"
    case 4 where has("search", at: 3): "/v1/catalog/{storefront}/search"
    case 4 where has("charts", at: 3): "/v1/catalog/{storefront}/charts"
    case 4: "/v1/catalog/{storefront}/{type}"
    case 5 where has("search", at: 3) && has("hints", at: 4): "/v1/catalog/{storefront}/search/hints"
    case 5 where has("search", at: 3) && has("suggestions", at: 4): "/v1/catalog/{storefront}/search/suggestions"
    case 5: "/v1/catalog/{storefront}/{type}/{id}"
    case 6: "/v1/catalog/{storefront}/{type}/{id}/{relationship}"
    case 7 where has("view", at: 5): "/v1/catalog/{storefront}/{type}/{id}/view/{view}"
    default: "/v1/catalog/{storefront}/*"
    }
  }

  private var storefrontsTemplate: StaticString {
    switch count {
    case 2: "/v1/storefronts"
    case 3: "/v1/storefronts/{storefront}"
    default: "/v1/storefronts/*"
    }
  }

  private var meTemplate: StaticString {
    if has("library", at: 2) { return "/v1/me/library/*" }
    if has("ratings", at: 2) { return "/v1/me/ratings/*" }
    if has("recommendations", at: 2) { return "/v1/me/recommendations/*" }
    if has("recent", at: 2) { return "/v1/me/recent/*" }
    if has("history", at: 2) { return "/v1/me/history/*" }
    if has("storefront", at: 2) { return "/v1/me/storefront" }
    return "/v1/me/*"
  }
}

/// A validated path in its canonical form, without escapes.
///
/// A segment may contain only unreserved characters (RFC 3986 §2.3). All of Apple's identifiers consist of them. These
/// characters mean the same plain and percent-encoded, so decoding changes nothing. No recipient can parse the result
/// in a second way: it has no escape to decode again, no hidden separator, and no parameter to drop.
struct PathSegments {
  /// The canonical path, with a slash before each segment.
  private(set) var path: [UInt8] = []
  private var ranges: [Range<Int>] = []

  /// Validates a path as received, and throws its defect.
  init(_ raw: Span<UInt8>) throws(TargetRefusal) {
    guard raw.count <= TargetLimits.path else { throw .pathTooLong }
    guard !raw.isEmpty, raw[0] == UInt8(ascii: "/") else { throw .notAbsolute }
    path.reserveCapacity(raw.count)
    ranges.reserveCapacity(8)
    path.append(UInt8(ascii: "/"))
    var start = 1
    var index = 1
    while index < raw.count {
      if raw[index] == UInt8(ascii: "/") {
        try endSegment(from: start)
        // Programs that send a slash at the end mean the path without it, as Apple documents it.
        if index + 1 == raw.count { return }
        path.append(UInt8(ascii: "/"))
        start = path.count
        index += 1
      } else {
        // Most paths have no escapes. A run without them is copied whole.
        let run = index
        while index < raw.count, raw[index].isUnreservedInURI { index += 1 }
        path.append(copying: raw.extracting(run..<index))
        if index == run { path.append(try Self.character(at: &index, in: raw)) }
      }
    }
    try endSegment(from: start)
  }

  var count: Int { ranges.count }

  /// Returns whether the segment at `index` exists and equals `name` byte for byte.
  func has(_ name: StaticString, at index: Int) -> Bool {
    index < ranges.count && path.span.equals(ranges[index], name)
  }

  /// Writes a storefront in lower case, as Apple does. Some programs send the codes of ISO 3166, which are in capitals.
  mutating func lowercaseStorefront() {
    guard count > 2, ranges[2].count == 2 else { return }
    let (first, second) = (ranges[2].lowerBound, ranges[2].lowerBound + 1)
    guard path[first].isASCIILetter, path[second].isASCIILetter, (path[first] & path[second]) & 0x20 == 0,
      has("catalog", at: 1) || has("storefronts", at: 1) || has("language", at: 1)
    else { return }
    path[first] |= 0x20
    path[second] |= 0x20
  }

  /// Returns the storefront at `index`: two lower-case ASCII letters, as Apple writes them. Throws otherwise.
  func storefront(at index: Int) throws(TargetRefusal) -> String {
    guard index < ranges.count else { throw .unknownPath }
    let code = path[ranges[index]]
    guard code.count == 2, code.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }) else {
      throw .storefront
    }
    return String(decoding: code, as: UTF8.self)
  }

  /// Returns the decoded character at `index`, and moves `index` past it.
  private static func character(at index: inout Int, in raw: Span<UInt8>) throws(TargetRefusal) -> UInt8 {
    let byte = raw[index]
    guard byte == UInt8(ascii: "%") else {
      try judge(byte)
      index += 1
      return byte
    }
    guard let decoded = raw.percentEncodedByte(at: index, before: raw.count) else { throw .malformedEscape }
    switch decoded {
    case UInt8(ascii: "/"): throw .encodedSlash
    case UInt8(ascii: "%"): throw .doubleEncoding
    default: try judge(decoded)
    }
    index += 3
    return decoded
  }

  private static func judge(_ byte: UInt8) throws(TargetRefusal) {
    if byte.isUnreservedInURI { return }
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
    let segment = start..<path.count
    guard !segment.isEmpty else { throw .emptySegment }
    guard segment.count <= TargetLimits.segment else { throw .segmentTooLong }
    guard ranges.count < TargetLimits.segments else { throw .tooManySegments }
    // Not only `.` and `..` (RFC 3986 §3.3): some systems treat longer runs like `..`.
    guard segment.contains(where: { path[$0] != UInt8(ascii: ".") }) else { throw .dotSegment }
    ranges.append(segment)
  }
}
