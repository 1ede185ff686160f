public import Bytes
public import HTTPTypes

/// The target of a request under `/v1`, validated once, before the proxy forwards any part of it. The proxy sends exactly
/// what it has validated: the segments of the path without escapes and without a slash at the end, and the query byte for
/// byte, except for characters that only need encoding.
public struct CatalogTarget: Sendable {
  /// The kind of the resource.
  public let kind: Kind
  /// The template of the path, one of a small fixed set: a label for logs and metrics.
  public let route: StaticString
  /// The target to send upstream, in origin form (RFC 9112 §3.2.1).
  public let bytes: [UInt8]
  /// The key for the cache: the path, and the query in a normal form. Targets that may differ in meaning have different keys.
  public let cacheKey: [UInt8]
  /// Whether the response is one user's: everything under `/v1/me`, and a request that has a music user token and selects
  /// more than what is known to be the same for all users. The proxy forwards the token, and never stores or shares it.
  public let wantsUserToken: Bool
  /// Whether the target has neither a query nor anything behind an ID. Such a resource is the same for all users.
  private let isPlain: Bool

  /// Validates the query of a validated path, as received and without its question mark, and throws its defect. Without a
  /// music user token, nothing decides whether the response depends on a user, because Apple cannot know the user.
  public init(_ path: CatalogPath, query: Span<UInt8>?, hasUserToken: Bool) throws(TargetDefect) {
    (kind, route) = (path.kind, path.route)
    var bytes = path.bytes
    var cacheKey = bytes
    var isUsers = kind == .me || (hasUserToken && !ResponseSelection.isSameForAll(path: bytes, kind))
    if let query {
      let parameters = try QueryParameters(query)
      if hasUserToken, kind != .test, !isUsers { isUsers = !ResponseSelection.isSameForAll(query: query) }
      bytes.append(UInt8(ascii: "?"))
      parameters.append(query, to: &bytes)
      cacheKey.append(UInt8(ascii: "?"))
      cacheKey.append(contentsOf: parameters.normalForm)
    }
    guard !isUsers || path.allowsMe else { throw TargetDefect(.userTokensDisabled) }
    self.bytes = bytes
    self.cacheKey = cacheKey
    wantsUserToken = isUsers
    isPlain = query == nil && path.depth <= 5
  }

  /// Whether the request asks for something of a user's, with or without a music user token.
  var asksForUser: Bool {
    if wantsUserToken { return true }
    let mark = bytes.firstIndex(of: UInt8(ascii: "?")) ?? bytes.endIndex
    let (path, query) = (Array(bytes[..<mark]), bytes[mark...].dropFirst())
    return kind != .test
      && !(ResponseSelection.isSameForAll(path: path, kind) && ResponseSelection.isSameForAll(query: query.span))
  }

  /// Whether the response may be another one with a music user token, for caches behind this one.
  var mayDependOnUser: Bool { !isPlain && asksForUser }

  /// The target, for an `UpstreamRequest`.
  public var target: ByteString { ByteString(bytes) }

  /// Whether the cache may store the response, and serve it to other callers with the same request.
  public var isStorable: Bool {
    switch kind {
    case .catalog, .storefronts, .language: !wantsUserToken
    case .test, .me: false
    }
  }

  /// The kind of a resource.
  public enum Kind: Sendable, Equatable {
    /// `/v1/catalog/{storefront}` and everything below.
    case catalog
    /// `/v1/storefronts` and everything below.
    case storefronts
    /// `/v1/language/{storefront}/tag`.
    case language
    /// `/v1/test`, which only checks the developer token.
    case test
    /// Everything below `/v1/me`.
    case me

    /// Returns whether a method is allowed: `GET` and `HEAD`, and below `/v1/me` the methods that Apple documents.
    public func allows(_ method: HTTPRequest.Method) -> Bool {
      switch method {
      case .get, .head: true
      case .post, .put, .patch, .delete: self == .me
      default: false
      }
    }

    /// The value of `Allow` (RFC 9110 §10.2.1). The server itself handles `OPTIONS`.
    public var allow: StaticString {
      self == .me ? "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" : "GET, HEAD, OPTIONS"
    }
  }

  /// The paths that the proxy forwards, as Apple's documentation lists them. A name in braces stands for one segment.
  /// The proxy also forwards paths below these, as ``CatalogPath`` decides.
  public static let templates = [
    "/v1/catalog/{storefront}", "/v1/catalog/{storefront}/search", "/v1/catalog/{storefront}/search/hints",
    "/v1/catalog/{storefront}/search/suggestions", "/v1/catalog/{storefront}/charts",
    "/v1/catalog/{storefront}/{type}", "/v1/catalog/{storefront}/{type}/{id}",
    "/v1/catalog/{storefront}/{type}/{id}/{relationship}", "/v1/catalog/{storefront}/{type}/{id}/view/{view}",
    "/v1/storefronts", "/v1/storefronts/{storefront}", "/v1/language/{storefront}/tag", "/v1/test",
  ]

  /// The paths of a user, which the proxy forwards if `/v1/me` is enabled.
  public static let userTemplates = [
    "/v1/me/library/{path}", "/v1/me/ratings/{path}", "/v1/me/recommendations/{path}", "/v1/me/recent/{path}",
    "/v1/me/history/{path}", "/v1/me/storefront", "/v1/me/{path}",
  ]
}

/// The validated path of a request under `/v1`. It suffices to find the permission that the request needs. The query and the
/// fields cost more, so the server processes them only for callers with permission: then it becomes a ``CatalogTarget``.
public struct CatalogPath: Sendable {
  /// The kind of the resource.
  public let kind: CatalogTarget.Kind
  /// The template of the path, one of a small fixed set: a label for logs and metrics.
  public let route: StaticString
  /// The path to send upstream: the same segments without escapes, the storefront in lower case, and no slash at the end.
  let bytes: [UInt8]
  /// The number of its segments.
  let depth: Int
  let allowsMe: Bool

  /// Validates a path as received, with its escapes, and throws its defect. `allowsMe`: the proxy forwards `/v1/me`.
  public init(_ path: Span<UInt8>, allowsMe: Bool) throws(TargetDefect) {
    var segments = try PathSegments(path)
    segments.lowercaseStorefront()
    (kind, route) = try segments.resource(allowsMe: allowsMe)
    (bytes, depth, self.allowsMe) = (segments.path, segments.count, allowsMe)
  }

  /// The storefront in the path, two lower-case letters. Nil if the path has none. Few clients are limited to storefronts.
  public var storefront: String? {
    switch kind {
    case .catalog, .language: String(decoding: bytes.split(separator: UInt8(ascii: "/"))[2], as: UTF8.self)
    case .storefronts, .test, .me: nil
    }
  }
}

/// The resource at Apple that a path names.
extension PathSegments {
  /// Returns the kind and the template of the path. Throws a defect if the proxy does not forward the path.
  fileprivate func resource(allowsMe: Bool) throws(TargetDefect) -> (CatalogTarget.Kind, template: StaticString) {
    guard has("v1", at: 0) else { throw TargetDefect(.unknownPath) }
    if has("catalog", at: 1) {
      try checkStorefront()
      return (.catalog, catalogTemplate)
    }
    if has("storefronts", at: 1) { return (.storefronts, storefrontsTemplate) }
    if has("language", at: 1), count == 4, has("tag", at: 3) {
      try checkStorefront()
      return (.language, "/v1/language/{storefront}/tag")
    }
    if has("test", at: 1), count == 2 { return (.test, "/v1/test") }
    guard has("me", at: 1), count > 2 else { throw TargetDefect(.unknownPath) }
    guard allowsMe else { throw TargetDefect(.meDisabled) }
    return (.me, meTemplate)
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

/// A validated path in its canonical form, without escapes. A segment may contain only unreserved characters (RFC 3986
/// §2.3), so no recipient can parse it in a second way: docs/decisions.md, 25.
struct PathSegments {
  /// The canonical path, with a slash before each segment.
  private(set) var path: [UInt8] = []
  private var ranges: [Range<Int>] = []

  /// Validates a path as received, and throws its defect.
  init(_ raw: Span<UInt8>) throws(TargetDefect) {
    guard raw.count <= TargetLimits.path else { throw TargetDefect(.pathTooLong) }
    guard !raw.isEmpty, raw[0] == UInt8(ascii: "/") else { throw TargetDefect(.notAbsolute) }
    path.reserveCapacity(raw.count)
    ranges.reserveCapacity(8)
    var index = 0
    while index < raw.count {
      let first = index + 1
      // Programs that send a slash at the end mean the path without it, as Apple documents it.
      if first == raw.count, !ranges.isEmpty { return }
      let start = path.count + 1
      // Most paths have no escapes. A run without them is copied whole, the first one with its slash.
      var run = index
      index = first
      repeat {
        while index < raw.count, raw[index].isUnreservedInURI { index += 1 }
        path.append(copying: raw.extracting(run..<index))
        guard index < raw.count, raw[index] != UInt8(ascii: "/") else { break }
        path.append(try Self.character(at: &index, in: raw))
        run = index
      } while true
      let segment = start..<path.count
      guard !segment.isEmpty else {
        throw TargetDefect(.emptySegment, at: index < raw.count ? first - 1..<first + 1 : nil)
      }
      guard segment.count <= TargetLimits.segment else { throw TargetDefect(.segmentTooLong) }
      guard ranges.count < TargetLimits.segments else { throw TargetDefect(.tooManySegments) }
      // Not only `.` and `..` (RFC 3986 §3.3): some systems treat longer runs like `..`.
      guard segment.contains(where: { path[$0] != UInt8(ascii: ".") }) else {
        throw TargetDefect(.dotSegment, at: first..<index)
      }
      ranges.append(segment)
    }
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

  /// Throws unless the third segment is a storefront: two lower-case ASCII letters, as Apple writes them.
  func checkStorefront() throws(TargetDefect) {
    guard count > 2 else { throw TargetDefect(.unknownPath) }
    let code = path[ranges[2]]
    guard code.count == 2, code.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }) else {
      throw TargetDefect(.storefront)
    }
  }

  /// Returns the decoded character at `index`, and moves `index` past it.
  private static func character(at index: inout Int, in raw: Span<UInt8>) throws(TargetDefect) -> UInt8 {
    let (start, byte) = (index, try raw.character(at: &index))
    if byte.isUnreservedInURI { return byte }
    let refusal: TargetRefusal =
      switch byte {
      case UInt8(ascii: "/"): .encodedSlash
      case UInt8(ascii: "%"): .doubleEncoding
      case _ where byte.isControlOrSpace: .controlByte
      case 0x80...: .notASCII
      case UInt8(ascii: "\\"): .backslash
      case UInt8(ascii: ";"): .pathParameter
      case UInt8(ascii: "#"): .fragment
      default: .reservedCharacter
      }
    throw TargetDefect(refusal, at: start..<index)
  }
}

/// The bounds of a request target that goes upstream. That of the whole request line also applies, 8 KiB by default.
enum TargetLimits {
  /// The maximum length of a path as received, in bytes: 2048. The longest that Apple documents has about 100.
  static let path = 2048
  /// The maximum length of a decoded path segment, in bytes: 256. Apple's longest identifiers are shorter than 100.
  static let segment = 256
  /// The maximum number of path segments: 16. Apple's deepest paths have eight.
  static let segments = 16
  /// The maximum number of query parameters: 128. The cache key sorts them. A list such as `ids` is one parameter.
  static let parameters = 128
}
