import Bytes
public import HTTPMessages
public import HTTPTypes

/// What a request under `/v1` asks Apple for: its target, judged once, before anything of it leaves.
///
/// The path is taken apart segment by segment with its escapes undone, and what was judged is what is sent: the same
/// segments, without any escape. The query is sent byte for byte.
public struct CatalogTarget: Sendable, Equatable {
  /// Whose resource it is.
  public let kind: Kind
  /// The template of the path, one of a fixed few: a label for logs and metrics.
  public let route: StaticString
  /// The storefront in the path, two lower-case letters; nil if the path has none.
  public let storefront: String?
  /// What to send upstream, in origin form (RFC 9112 §3.2.1).
  public let bytes: [UInt8]
  /// What a cache may take for the same target: the path, and the query in an order and a spelling that do not matter to
  /// Apple. Different in every doubt.
  public let cacheKey: [UInt8]
  /// Whether the response depends on a user: everything under `/v1/me`, and requests with `relate=library` or
  /// `filter[identity]=personal`. Only one caller may have such a response: the proxy never stores or shares it.
  public let wantsUserToken: Bool
  /// Whether the caller's music user token goes along, which is so for what wants it if `/v1/me` is forwarded at all.
  public let forwardsUserToken: Bool

  /// Judges a request target.
  ///
  /// - Parameters:
  ///   - path: As it was received, escapes and all.
  ///   - query: The query as received, without its question mark; nil if the target has no query.
  ///   - allowsMe: Whether `/v1/me` is forwarded.
  /// - Throws: What is wrong with it.
  public init(
    path: Span<UInt8>, query: Span<UInt8>?, allowsMe: Bool, limits: TargetLimits = TargetLimits()
  ) throws(TargetRefusal) {
    try self.init(CatalogPath(path, allowsMe: allowsMe, limits: limits), query: query, limits: limits)
  }

  /// Judges the query behind a path that has been judged.
  ///
  /// - Parameter query: The query as received, without its question mark; nil if the target has no query.
  /// - Throws: What is wrong with it.
  public init(_ path: CatalogPath, query: Span<UInt8>?, limits: TargetLimits = TargetLimits()) throws(TargetRefusal) {
    kind = path.kind
    route = path.route
    storefront = path.storefront
    var bytes = path.bytes
    var cacheKey = bytes
    var asksAboutUser = false
    if let query {
      let parameters = try QueryParameters(query, limits: limits)
      asksAboutUser = parameters.asksAboutUser
      bytes.append(UInt8(ascii: "?"))
      bytes.append(copying: query)
      cacheKey.append(UInt8(ascii: "?"))
      cacheKey.append(contentsOf: parameters.normalForm)
    }
    self.bytes = bytes
    self.cacheKey = cacheKey
    wantsUserToken = kind == .me || (kind == .catalog && asksAboutUser)
    forwardsUserToken = wantsUserToken && path.allowsMe
  }

  /// ``bytes`` as text, for an `UpstreamRequest`.
  public var target: String { String(decoding: bytes, as: UTF8.self) }

  /// Whether its response may be stored, and given to others who ask the same.
  public var isStorable: Bool {
    switch kind {
    case .catalog, .storefronts, .language: !wantsUserToken
    case .test, .me: false
    }
  }

  /// Whether a method may be used on it: `GET` and `HEAD`; below `/v1/me`, what Apple documents there, too.
  public func allows(_ method: HTTPRequest.Method) -> Bool { kind.allows(method) }

  /// The value of `Allow` (RFC 9110 §10.2.1); `OPTIONS` is the server's own.
  public var allow: StaticString { kind.allow }

  /// Whether two targets are the same.
  public static func == (left: CatalogTarget, right: CatalogTarget) -> Bool {
    left.bytes == right.bytes && left.forwardsUserToken == right.forwardsUserToken
  }
}

extension CatalogTarget {
  /// Whose resource a target is.
  public enum Kind: Sendable, Equatable {
    /// `/v1/catalog/{storefront}` and what is below.
    case catalog
    /// `/v1/storefronts` and what is below.
    case storefronts
    /// `/v1/language/{storefront}/tag`.
    case language
    /// `/v1/test`, which only checks the developer token.
    case test
    /// Below `/v1/me`.
    case me

    /// Whether a method may be used on it: `GET` and `HEAD`; below `/v1/me`, what Apple documents there, too.
    func allows(_ method: HTTPRequest.Method) -> Bool {
      switch method {
      case .get, .head: true
      case .post, .put, .patch, .delete: self == .me
      default: false
      }
    }

    /// The value of `Allow` (RFC 9110 §10.2.1); `OPTIONS` is the server's own.
    var allow: StaticString {
      self == .me ? "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" : "GET, HEAD, OPTIONS"
    }
  }
}

extension CatalogTarget {
  /// The paths that the proxy forwards, as Apple's documentation lists them. A name in braces stands for one segment.
  /// The proxy also forwards what Apple has below these paths, as ``CatalogRoute`` decides.
  public static let templates = [
    "/v1/catalog/{storefront}", "/v1/catalog/{storefront}/search", "/v1/catalog/{storefront}/search/hints",
    "/v1/catalog/{storefront}/search/suggestions", "/v1/catalog/{storefront}/charts",
    "/v1/catalog/{storefront}/{type}", "/v1/catalog/{storefront}/{type}/{id}",
    "/v1/catalog/{storefront}/{type}/{id}/{relationship}", "/v1/catalog/{storefront}/{type}/{id}/view/{view}",
    "/v1/storefronts", "/v1/storefronts/{storefront}", "/v1/language/{storefront}/tag", "/v1/test",
  ]

  /// Those of a user, where they are forwarded.
  public static let userTemplates = [
    "/v1/me/library/{path}", "/v1/me/ratings/{path}", "/v1/me/recommendations/{path}", "/v1/me/recent/{path}",
    "/v1/me/history/{path}", "/v1/me/storefront", "/v1/me/{path}",
  ]
}

/// The bounds of a request target that goes upstream: name, default, unit and reason. The request line's own bound holds
/// besides, 8 KiB by default.
public struct TargetLimits: Sendable, Equatable {
  /// Longest path as it was received, in bytes: 2048. The longest that Apple documents has about a hundred.
  public var path = 2048

  /// Longest segment of a path, escapes undone, in bytes: 256. Apple's longest identifiers, of stations and library
  /// items, stay below a hundred.
  public var segment = 256

  /// Most segments of a path: 16. Apple's deepest paths have eight.
  public var segments = 16

  /// Most parameters of a query: 128. Each is sorted for the cache key; lists such as `ids` are one parameter.
  public var parameters = 128

  /// The defaults.
  public init() {}
}

/// Why a request target does not go upstream.
public enum TargetRefusal: Error, Sendable, Equatable, CaseIterable {
  // What two parsers could read in two ways.
  case notAbsolute
  case controlByte
  case malformedEscape
  case doubleEncoding
  case encodedSlash
  case backslash
  case dotSegment
  case emptySegment
  case trailingSlash
  case pathParameter
  case fragment
  case notASCII
  case reservedCharacter
  case queryByte
  case queryNotUTF8

  // What is too much.
  case pathTooLong
  case segmentTooLong
  case tooManySegments
  case tooManyParameters

  // What is not there.
  case unknownPath
  case storefront
  case meDisabled

  /// The response to the caller: 404 for a valid path that the server does not serve, 400 for everything else.
  public var response: ErrorResponse {
    switch self {
    case .unknownPath, .storefront, .meDisabled: ErrorResponse(.notFound, detail)
    default: ErrorResponse(.malformedRequest, detail)
    }
  }

  /// The `detail` of the error object: one sentence for the caller.
  public var detail: String {
    switch self {
    case .notAbsolute: "The path does not begin with a slash."
    case .controlByte: "The path or the query holds a control character, a space or a DEL, plain or percent-encoded."
    case .malformedEscape: "A percent sign in the path or the query is not followed by two hexadecimal digits."
    case .doubleEncoding: "The path holds a percent-encoded percent sign: it seems to be encoded twice."
    case .encodedSlash: "The path holds a percent-encoded slash."
    case .backslash: "The path holds a backslash, plain or percent-encoded."
    case .dotSegment: "A segment of the path consists of dots only."
    case .emptySegment: "The path has two slashes in a row."
    case .trailingSlash: "The path ends in a slash: leave it out."
    case .pathParameter: "The path holds a semicolon: paths of Apple Music have no parameters."
    case .fragment: "The target holds a number sign: a fragment is not sent to a server."
    case .notASCII: "The path holds a character beyond ASCII, which no identifier of Apple Music has."
    case .reservedCharacter:
      "The path holds a character other than letters, digits, hyphens, periods, underscores and tildes."
    case .queryByte: "The query holds a character that has to be percent-encoded."
    case .queryNotUTF8: "The query, its percent-encoding undone, is not UTF-8."
    case .pathTooLong: "The path is too long."
    case .segmentTooLong: "A segment of the path is too long."
    case .tooManySegments: "The path has too many segments."
    case .tooManyParameters: "The query has too many parameters."
    case .unknownPath:
      """
      There is nothing at this path. Served are /v1/catalog/{storefront}, /v1/storefronts, \
      /v1/language/{storefront}/tag and /v1/test, in lower case.
      """
    case .storefront: "The storefront is not a code of two lower-case letters, as in /v1/catalog/us."
    case .meDisabled: "This server does not forward /v1/me: its setting catalog.me is off."
    }
  }
}
