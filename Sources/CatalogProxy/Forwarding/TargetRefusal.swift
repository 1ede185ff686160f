public import HTTPTypes

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

  /// The status: 404 for a valid path that the server does not serve, 400 for everything else.
  public var status: HTTPResponse.Status {
    switch self {
    case .unknownPath, .storefront, .meDisabled: .notFound
    default: .badRequest
    }
  }

  /// The `code` of the error object: `not_found` or `malformed_request`.
  public var code: String {
    status == .notFound ? "not_found" : "malformed_request"
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
