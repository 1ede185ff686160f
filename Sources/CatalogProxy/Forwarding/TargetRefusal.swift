import Bytes
public import HTTPMessages
import HTTPTypes

/// The reason why a request target does not go upstream. The raw value is the `detail` of the error object: one sentence for
/// the caller.
public enum TargetRefusal: String, Error, Sendable, CaseIterable {
  // Targets that two parsers could read in two ways.
  case notAbsolute = "The path does not begin with a slash."
  case controlByte = "The path or the query contains a control character, a space or a DEL, plain or percent-encoded."
  case malformedEscape = "A percent sign in the path or the query is not followed by two hexadecimal digits."
  case doubleEncoding = "The path contains a percent-encoded percent sign: it seems to be encoded twice."
  case encodedSlash = "The path contains a percent-encoded slash."
  case backslash = "The path contains a backslash, plain or percent-encoded."
  case dotSegment = "A segment of the path consists of dots only."
  case emptySegment = "The path has two slashes in a row."
  case pathParameter = "The path contains a semicolon: paths of Apple Music have no parameters."
  case fragment = "The target contains a number sign: clients do not send fragments to servers."
  case notASCII = "The path contains a character beyond ASCII, which no identifier of Apple Music has."
  case reservedCharacter =
    "The path contains a character other than letters, digits, hyphens, periods, underscores and tildes."
  case queryByte = "The query contains a character beyond ASCII, which must be percent-encoded as UTF-8."
  case queryNotUTF8 = "The percent-decoded query is not UTF-8."

  // Targets that exceed a limit.
  case pathTooLong = "The path is too long."
  case segmentTooLong = "A segment of the path is too long."
  case tooManySegments = "The path has too many segments."
  case tooManyParameters = "The query has too many parameters."

  // Targets that do not exist or are disabled.
  case unknownPath = """
    This path does not exist. The server serves /v1/catalog/{storefront}, /v1/storefronts, \
    /v1/language/{storefront}/tag and /v1/test, in lower case.
    """
  case storefront = "The storefront is not a code of two letters, as in /v1/catalog/us."
  case meDisabled = "This server does not forward /v1/me: its setting catalog.me is off."
  case userTokensDisabled = """
    The request has a music user token and asks for something of the user's, which this server does not forward: its \
    setting catalog.me is off. Leave the token out to get what is the same for all users.
    """

  /// The response to the caller: 404 for a valid path that the server does not serve, 400 for everything else.
  public var response: ErrorResponse {
    switch self {
    case .unknownPath, .storefront, .meDisabled: return ErrorResponse(.notFound, rawValue)
    case .userTokensDisabled:
      var response = ErrorResponse(.notPermitted, rawValue)
      // Apps take 403 as the sign to fetch a new music user token.
      response.status = .notFound
      return response
    default: return ErrorResponse(.malformedRequest, rawValue)
    }
  }
}

/// A refusal, and the part of the target that it is about.
public struct TargetDefect: Error {
  /// The reason.
  public let refusal: TargetRefusal
  /// The part of the path or of the query; nil if the refusal is about all of it. A character beyond ASCII may be longer.
  private let part: Range<Int>?

  init(_ refusal: TargetRefusal, at part: Range<Int>? = nil) { (self.refusal, self.part) = (refusal, part) }

  /// The response to the caller, with the part of the path, or else the query, as received.
  public func response(quoting text: ArraySlice<UInt8>) -> ErrorResponse {
    var response = refusal.response
    if let part { response.detail += " \(Self.sentence(about: part, of: text.span))" }
    return response
  }

  private static func sentence(about part: Range<Int>, of text: Span<UInt8>) -> String {
    var character: UnicodeScalar?
    var part = part
    if text[part.lowerBound] >= 0x80 {
      var rest: [UInt8] = []
      rest.append(copying: text.extracting(part.lowerBound..<min(part.lowerBound + 4, text.count)))
      var (bytes, decoder) = (rest.makeIterator(), UTF8())
      if case .scalarValue(let scalar) = decoder.decode(&bytes) { character = scalar }
      part = part.lowerBound..<part.lowerBound + (character.map { UTF8.width($0) } ?? 1)
    }
    var encoded: [UInt8] = []
    for index in part {
      if text[index].isControlOrSpace || text[index] >= 0x80 {
        encoded.append(percentEncoding: text[index])
      } else {
        encoded.append(text[index])
      }
    }
    let written = String(decoding: encoded, as: UTF8.self)
    let position = "at byte \(part.lowerBound + 1)"
    guard text[part.lowerBound] >= 0x80 else { return "It is \(written), \(position)." }
    guard let character else { return "It is a byte that is not UTF-8, \(position): \(written)." }
    let name =
      character.isVisible ? "“\(character)”" : "U+" + String(character.value, radix: 16, uppercase: true)
    return "It is \(name), \(position): write \(written)."
  }
}

extension UnicodeScalar {
  /// Whether the character shows itself. Controls, direction marks and combining marks could change the text around it.
  fileprivate var isVisible: Bool {
    switch properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .otherLetter, .decimalNumber, .letterNumber,
      .otherNumber, .dashPunctuation, .otherPunctuation, .initialPunctuation, .finalPunctuation, .mathSymbol,
      .currencySymbol, .otherSymbol:
      true
    default: false
    }
  }
}
