public import Bytes
public import HTTPMessages
public import HTTPTypes

/// The target of a request under `/v1`, validated once, before the proxy forwards any part of it.
///
/// The path is split into segments, which are decoded. The proxy sends exactly what it has validated: the same segments
/// without escapes and without a slash at the end. It sends the query byte for byte, except for characters that only
/// need encoding.
public struct CatalogTarget: Sendable {
  /// The kind of the resource.
  public let kind: Kind
  /// The template of the path, one of a small fixed set: a label for logs and metrics.
  public let route: StaticString
  /// The storefront in the path, two lower-case letters. Nil if the path has none.
  public let storefront: String?
  /// The target to send upstream, in origin form (RFC 9112 §3.2.1).
  public let bytes: [UInt8]
  /// The key for the cache: the path, and the query in a normal form. Its order and spelling do not matter to Apple.
  /// Targets that may differ in meaning have different keys.
  public let cacheKey: [UInt8]
  /// Whether the response is one user's: everything under `/v1/me`, and a request that has a music user token and selects
  /// more than what is known to be the same for all users. The proxy forwards the token, and never stores or shares such
  /// a response.
  public let wantsUserToken: Bool

  /// Validates the query of a validated path.
  ///
  /// - Parameters:
  ///   - query: The query as received, without its question mark; nil if the target has no query.
  ///   - hasUserToken: Whether the request has a music user token. Without one, nothing decides whether the response
  ///     depends on a user, because Apple cannot know the user.
  /// - Throws: The defect of the query.
  public init(_ path: CatalogPath, query: Span<UInt8>?, hasUserToken: Bool) throws(TargetRefusal) {
    (kind, route, storefront) = (path.kind, path.route, path.storefront)
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
    guard !isUsers || path.allowsMe else { throw .userTokensDisabled }
    self.bytes = bytes
    self.cacheKey = cacheKey
    wantsUserToken = isUsers
  }

  /// Whether the request asks for something of a user's, with or without a music user token. Reads the target again,
  /// because only a 401 makes a difference between the two.
  var asksForUser: Bool {
    if wantsUserToken { return true }
    let mark = bytes.firstIndex(of: UInt8(ascii: "?")) ?? bytes.endIndex
    let (path, query) = (Array(bytes[..<mark]), bytes[mark...].dropFirst())
    return kind != .test
      && !(ResponseSelection.isSameForAll(path: path, kind) && ResponseSelection.isSameForAll(query: query.span))
  }

  /// The target, for an `UpstreamRequest`.
  public var target: ByteString { ByteString(bytes) }

  /// Whether the cache may store the response, and serve it to other callers with the same request.
  public var isStorable: Bool {
    switch kind {
    case .catalog, .storefronts, .language: !wantsUserToken
    case .test, .me: false
    }
  }
}

extension CatalogTarget {
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
}

extension CatalogTarget {
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

/// The bounds of a request target that goes upstream, each with default, unit and reason. The bound of the whole
/// request line also applies, 8 KiB by default.
enum TargetLimits {
  /// The maximum length of a path as received, in bytes: 2048. The longest that Apple documents has about 100.
  static let path = 2048

  /// The maximum length of a decoded path segment, in bytes: 256. Apple's longest identifiers, those of stations and
  /// library items, are shorter than 100.
  static let segment = 256

  /// The maximum number of path segments: 16. Apple's deepest paths have eight.
  static let segments = 16

  /// The maximum number of query parameters: 128. The cache key sorts them. A list such as `ids` is one parameter.
  static let parameters = 128
}

/// The reason why a request target does not go upstream.
public enum TargetRefusal: Error, Sendable, Equatable, CaseIterable {
  // Targets that two parsers could read in two ways.
  case notAbsolute
  case controlByte
  case malformedEscape
  case doubleEncoding
  case encodedSlash
  case backslash
  case dotSegment
  case emptySegment
  case pathParameter
  case fragment
  case notASCII
  case reservedCharacter
  case queryByte
  case queryNotUTF8

  // Targets that exceed a limit.
  case pathTooLong
  case segmentTooLong
  case tooManySegments
  case tooManyParameters

  // Targets that do not exist or are disabled.
  case unknownPath
  case storefront
  case meDisabled
  case userTokensDisabled

  /// The response to the caller: 404 for a valid path that the server does not serve, 400 for everything else.
  public var response: ErrorResponse {
    switch self {
    case .unknownPath, .storefront, .meDisabled: return ErrorResponse(.notFound, detail)
    case .userTokensDisabled:
      var response = ErrorResponse(.notPermitted, detail)
      // Apps take 403 as the sign to fetch a new music user token.
      response.status = .notFound
      return response
    default: return ErrorResponse(.malformedRequest, detail)
    }
  }

  /// The `detail` of the error object: one sentence for the caller.
  public var detail: String {
    switch self {
    case .notAbsolute: "The path does not begin with a slash."
    case .controlByte: "The path or the query contains a control character, a space or a DEL, plain or percent-encoded."
    case .malformedEscape: "A percent sign in the path or the query is not followed by two hexadecimal digits."
    case .doubleEncoding: "The path contains a percent-encoded percent sign: it seems to be encoded twice."
    case .encodedSlash: "The path contains a percent-encoded slash."
    case .backslash: "The path contains a backslash, plain or percent-encoded."
    case .dotSegment: "A segment of the path consists of dots only."
    case .emptySegment: "The path has two slashes in a row."
    case .pathParameter: "The path contains a semicolon: paths of Apple Music have no parameters."
    case .fragment: "The target contains a number sign: clients do not send fragments to servers."
    case .notASCII: "The path contains a character beyond ASCII, which no identifier of Apple Music has."
    case .reservedCharacter:
      "The path contains a character other than letters, digits, hyphens, periods, underscores and tildes."
    case .queryByte: "The query contains a character beyond ASCII, which must be percent-encoded as UTF-8."
    case .queryNotUTF8: "The percent-decoded query is not UTF-8."
    case .pathTooLong: "The path is too long."
    case .segmentTooLong: "A segment of the path is too long."
    case .tooManySegments: "The path has too many segments."
    case .tooManyParameters: "The query has too many parameters."
    case .unknownPath:
      """
      This path does not exist. The server serves /v1/catalog/{storefront}, /v1/storefronts, \
      /v1/language/{storefront}/tag and /v1/test, in lower case.
      """
    case .storefront: "The storefront is not a code of two letters, as in /v1/catalog/us."
    case .meDisabled: "This server does not forward /v1/me: its setting catalog.me is off."
    case .userTokensDisabled:
      """
      The request has a music user token and asks for something of the user's, which this server does not forward: its \
      setting catalog.me is off. Leave the token out to get what is the same for all users.
      """
    }
  }
}
