public import HTTPTypes

/// Why a request is refused. Every case ends the connection: what follows such a message cannot be told apart from it.
///
/// ``status`` says how to answer, ``reason`` what to tell the caller.
public enum RequestError: Error, Equatable, Sendable, CaseIterable {
  // Bytes that may stand nowhere in a head or in the lines of a chunked body.

  /// LF without the CR before it (RFC 9112 §2.2).
  case bareLineFeed
  /// CR without the LF after it (RFC 9112 §2.2).
  case bareCarriageReturn
  /// NUL, DEL or another control character but HTAB in a field value (RFC 9110 §5.5).
  case controlCharacter

  // Request line, RFC 9112 §3.

  /// More than one empty line before the request line (RFC 9112 §2.2).
  case repeatedEmptyLine
  /// Not `method SP request-target SP HTTP-version`; an HTTP/0.9 request too.
  case malformedRequestLine
  /// The method is not a token.
  case malformedMethod
  /// The method exceeds ``HTTP1Limits/method``.
  case methodTooLong
  /// The request line exceeds ``HTTP1Limits/requestLine``.
  case requestLineTooLong
  /// A major version other than 1; HTTP/2's connection preface too.
  case unsupportedVersion

  // Request target, RFC 9112 §3.2.

  /// In none of the four forms, in one that the method does not take, or with a character that does not belong there.
  case malformedTarget
  /// A fragment, which is never sent (RFC 9110 §7.1).
  case fragmentInTarget
  /// A `%` without two hexadecimal digits (RFC 3986 §2.1).
  case malformedPercentEncoding
  /// `%00`: code that ends strings at NUL would see another target.
  case encodedNUL
  /// Neither an `http` nor an `https` URI.
  case unsupportedScheme

  // Host, RFC 9112 §3.2.

  /// No Host in HTTP/1.1.
  case missingHost
  /// More than one Host.
  case repeatedHost
  /// Host, or the target's authority, is not `uri-host [ ":" port ]`, or empty.
  case malformedHost

  // Field lines, RFC 9112 §5.

  /// A line that begins with white space (RFC 9112 §5.2).
  case obsoleteFolding
  /// A line without a name before the colon.
  case emptyFieldName
  /// A name that is not a token, or a line without a colon.
  case malformedFieldName
  /// White space between the name and the colon (RFC 9112 §5.1).
  case whitespaceInFieldName
  /// The header section exceeds ``HTTP1Limits/headerSection``.
  case headerSectionTooLarge
  /// More field lines than ``HTTP1Limits/fieldLines``.
  case tooManyFieldLines

  // Message framing, RFC 9112 §6.

  /// Not a plain decimal number that fits `Int`.
  case malformedContentLength
  /// More than one Content-Length, equal or not.
  case repeatedContentLength
  /// Both Content-Length and Transfer-Encoding: the mark of request smuggling (RFC 9112 §6.1).
  case contentLengthWithTransferEncoding
  /// Transfer-Encoding in HTTP/1.0 (RFC 9112 §6.1).
  case transferEncodingInHTTP10
  /// More than one Transfer-Encoding field line.
  case repeatedTransferEncoding
  /// Not a list of bare coding names, or one where `chunked` is not last and alone of its kind.
  case malformedTransferEncoding
  /// A coding that this server does not implement (RFC 9112 §6.1).
  case unsupportedTransferCoding

  /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
  case unsupportedExpectation

  // Chunked coding, RFC 9112 §7.1.

  /// A chunk size that is not 1 to 16 hexadecimal digits whose value fits `Int`.
  case malformedChunkSize
  /// A chunk extension outside the grammar of RFC 9112 §7.1.1, which is taken here without its white space.
  case malformedChunkExtension
  /// The extensions of the body exceed ``HTTP1Limits/chunkExtensions``.
  case chunkExtensionsTooLong
  /// Chunk data that is longer than its chunk size said.
  case malformedChunkEnd
  /// The trailer section exceeds ``HTTP1Limits/trailerSection``.
  case trailerSectionTooLarge
}

extension RequestError {
  /// One sentence for the caller. It holds nothing of what was received.
  public var reason: String {
    switch self {
    case .bareLineFeed: "A line feed is not preceded by a carriage return."
    case .bareCarriageReturn: "A carriage return is not followed by a line feed."
    case .controlCharacter: "The message contains a control character."
    case .repeatedEmptyLine: "More than one empty line precedes the request line."
    case .malformedRequestLine: "The request line is not a method, a target and a version, one space apart."
    case .malformedMethod: "The method contains a character that no method may contain."
    case .methodTooLong: "The method is longer than any that this server implements."
    case .requestLineTooLong: "The request line is too long."
    case .unsupportedVersion: "This server speaks HTTP/1.1 and HTTP/1.0 here, no other version."
    case .malformedTarget: "The request target is malformed, or in a form that this method does not take."
    case .fragmentInTarget: "The request target contains a fragment."
    case .malformedPercentEncoding: "The request target has a percent sign without two hexadecimal digits."
    case .encodedNUL: "The request target contains an encoded NUL."
    case .unsupportedScheme: "The scheme of the request target is neither http nor https."
    case .missingHost: "The Host field is missing."
    case .repeatedHost: "There is more than one Host field."
    case .malformedHost: "The host is not a name or an address with an optional port."
    case .obsoleteFolding: "A field line begins with white space."
    case .emptyFieldName: "A field line has no name before the colon."
    case .malformedFieldName: "A field line does not begin with a name and a colon."
    case .whitespaceInFieldName: "White space stands between a field name and its colon."
    case .headerSectionTooLarge: "The header section is too large."
    case .tooManyFieldLines: "There are too many field lines."
    case .malformedContentLength: "Content-Length is not a decimal number within range."
    case .repeatedContentLength: "There is more than one Content-Length field."
    case .contentLengthWithTransferEncoding: "Content-Length and Transfer-Encoding exclude each other."
    case .transferEncodingInHTTP10: "HTTP/1.0 has no Transfer-Encoding."
    case .repeatedTransferEncoding: "There is more than one Transfer-Encoding field."
    case .malformedTransferEncoding: "Transfer-Encoding does not end in chunked, once and without parameters."
    case .unsupportedTransferCoding: "chunked is the only transfer coding that this server implements."
    case .unsupportedExpectation: "100-continue is the only expectation that this server can meet."
    case .malformedChunkSize: "A chunk size is not 1 to 16 hexadecimal digits within range."
    case .malformedChunkExtension: "A chunk extension is malformed."
    case .chunkExtensionsTooLong: "The chunk extensions are too long."
    case .malformedChunkEnd: "Chunk data does not end where its size says."
    case .trailerSectionTooLarge: "The trailer section is too large."
    }
  }
}

extension RequestError {
  /// The status to answer with.
  public var status: HTTPResponse.Status {
    switch self {
    case .requestLineTooLong: .uriTooLong
    case .headerSectionTooLarge, .tooManyFieldLines, .trailerSectionTooLarge: .requestHeaderFieldsTooLarge
    case .unsupportedExpectation: .expectationFailed
    case .methodTooLong, .unsupportedTransferCoding: .notImplemented
    case .unsupportedVersion: .httpVersionNotSupported
    default: .badRequest
    }
  }
}

extension RequestError {
  /// What is wrong with a byte that may stand nowhere in a head; nil for the others, and for CR, which may end a line.
  init?(forbidden byte: UInt8) {
    switch byte {
    case .carriageReturn: return nil
    case .lineFeed: self = .bareLineFeed
    default:
      guard byte.isControl else { return nil }
      self = .controlCharacter
    }
  }
}

/// Every limit of the HTTP/1.1 codec: name, default, unit and reason.
///
/// A message that exceeds one is refused with the error named beside it.
public struct HTTP1Limits: Sendable, Equatable {
  /// Longest method, in bytes: 32. The longest registered one (`UPDATEREDIRECTREF`) has 17; a peer that sends an
  /// endless first word is not speaking HTTP. ``RequestError/methodTooLong`` (501, RFC 9112 §3).
  public var method = 32

  /// Longest request line without its CRLF, in bytes: 8 KiB, above the 8000 that RFC 9112 §3 asks for at least.
  /// ``RequestError/requestLineTooLong`` (414).
  public var requestLine = 8192

  /// Largest header section, in bytes, CRLFs included, request line and final empty line not: 32 KiB. Browsers and
  /// proxies stay below 16. ``RequestError/headerSectionTooLarge`` (431).
  public var headerSection = 32768

  /// Most field lines in a header section, and most in a trailer section: 100. Each costs more to keep than to send.
  /// ``RequestError/tooManyFieldLines`` (431).
  public var fieldLines = 100

  /// Most interim responses before a final one: 8. One is usual; a server that sends them for ever keeps a client
  /// waiting. ``ResponseError/tooManyInterimResponses``.
  public var interimResponses = 8

  /// All chunk extensions of one body together, in bytes: 4 KiB. No deployed software uses them, so they only make
  /// a server spend time without progress. ``RequestError/chunkExtensionsTooLong`` (400, RFC 9112 §7.1.1).
  public var chunkExtensions = 4096

  /// Largest trailer section, in bytes, CRLFs included: 8 KiB. Trailers are checked and thrown away.
  /// ``RequestError/trailerSectionTooLarge`` (431).
  public var trailerSection = 8192

  /// The defaults.
  public init() {}
}
