import Bytes
public import HTTPTypes

/// The reason why a request is refused. Over HTTP/1.1 it ends the connection: the next message may have no clear start.
public enum RequestError: Error, Equatable, Sendable, CaseIterable {
  // Bytes that a head and the lines of a chunked body may not contain: RFC 9112 §2.2, RFC 9110 §5.5.
  case bareLineFeed, bareCarriageReturn, controlCharacter
  // Request line: RFC 9112 §2.2, §3.
  case repeatedEmptyLine, malformedRequestLine, malformedMethod, methodTooLong, requestLineTooLong, unsupportedVersion
  // Request target: RFC 9112 §3.2, RFC 9110 §7.1. Code that ends strings at NUL would read another target.
  case malformedTarget, fragmentInTarget, malformedPercentEncoding, encodedNUL, unsupportedScheme
  // Host: RFC 9112 §3.2.
  case missingHost, repeatedHost, malformedHost
  // Field lines: RFC 9112 §5.
  case obsoleteFolding, emptyFieldName, malformedFieldName, whitespaceInFieldName
  case headerSectionTooLarge, tooManyFieldLines
  // Message framing: RFC 9112 §6. Both framing fields are a sign of request smuggling (§6.1). Expect: RFC 9110 §10.1.1.
  case malformedContentLength, repeatedContentLength, contentLengthWithTransferEncoding
  case transferEncodingInHTTP10, repeatedTransferEncoding, malformedTransferEncoding, unsupportedTransferCoding
  case unsupportedExpectation
  // Chunked coding: RFC 9112 §7.1. The decoder does not accept the white space that §7.1.1 allows.
  case malformedChunkSize, malformedChunkExtension, chunkExtensionsTooLong, malformedChunkEnd, trailerSectionTooLarge

  /// One sentence for the caller. It contains nothing of the received bytes.
  public var reason: String {
    switch self {
    case .bareLineFeed: "A line feed is not preceded by a carriage return."
    case .bareCarriageReturn: "A carriage return is not followed by a line feed."
    case .controlCharacter: "The message contains a control character."
    case .repeatedEmptyLine: "More than one empty line precedes the request line."
    case .malformedRequestLine: "The request line is not a method, a target and a version, one space apart."
    case .malformedMethod: "The method contains a character that no method may contain."
    case .methodTooLong: "The method is longer than every method that this server implements."
    case .requestLineTooLong:
      "The request line is longer than \(HTTP1Limits().requestLine) bytes: send a shorter query."
    case .unsupportedVersion: "This server speaks HTTP/1.1 and HTTP/1.0 here, no other version."
    case .malformedTarget: "The request target is malformed, or in a form that this method does not allow."
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
    case .whitespaceInFieldName: "White space is between a field name and its colon."
    case .headerSectionTooLarge:
      "The header section has more than \(HTTP1Limits().headerSection) bytes or \(HTTP1Limits().fieldLines) field lines: send less, such as fewer cookies."
    case .tooManyFieldLines: "There are more than \(HTTP1Limits().fieldLines) field lines: send fewer fields."
    case .malformedContentLength: "Content-Length is not a decimal number within range."
    case .repeatedContentLength: "There is more than one Content-Length field."
    case .contentLengthWithTransferEncoding: "Content-Length and Transfer-Encoding exclude each other."
    case .transferEncodingInHTTP10: "HTTP/1.0 has no Transfer-Encoding."
    case .repeatedTransferEncoding: "There is more than one Transfer-Encoding field."
    case .malformedTransferEncoding: "Transfer-Encoding does not end in chunked, once and without parameters."
    case .unsupportedTransferCoding: "chunked is the only transfer coding that this server implements."
    case .unsupportedExpectation: "100-continue is the only expectation that this server supports."
    case .malformedChunkSize: "A chunk size is not 1 to 16 hexadecimal digits within range."
    case .malformedChunkExtension: "A chunk extension is malformed."
    case .chunkExtensionsTooLong: "The chunk extensions are too long."
    case .malformedChunkEnd: "Chunk data does not end where its size says."
    case .trailerSectionTooLarge: "The trailer section is too large."
    }
  }

  /// Returns the part of a request target that the error is about; nil without one, or if it is not visible ASCII.
  public func part(of target: Span<UInt8>) -> String? {
    for index in target.indices {
      let length: Int
      switch self {
      case .malformedPercentEncoding where target[index] == .percentSign:
        guard target.percentEncodedByte(at: index, before: target.count) == nil else { continue }
        length = min(3, target.count - index)
      case .encodedNUL where target[index] == .percentSign:
        guard target.percentEncodedByte(at: index, before: target.count) == 0 else { continue }
        length = 3
      case .fragmentInTarget where target[index] == .numberSign: length = 1
      default: continue
      }
      let part = index..<index + length
      guard part.allSatisfy({ (0x21..<0x7f).contains(target[$0]) }) else { return nil }
      return "\(target.string(in: part)), at byte \(index + 1) of the target"
    }
    return nil
  }

  /// Whether the lines of the head that is refused are still clear, so that its other fields can be read.
  public var leavesLinesClear: Bool {
    switch self {
    case .requestLineTooLong, .malformedTarget, .fragmentInTarget, .malformedPercentEncoding, .encodedNUL,
      .unsupportedScheme, .missingHost, .repeatedHost, .malformedHost, .headerSectionTooLarge, .tooManyFieldLines,
      .malformedContentLength, .repeatedContentLength, .contentLengthWithTransferEncoding, .transferEncodingInHTTP10,
      .repeatedTransferEncoding, .malformedTransferEncoding, .unsupportedTransferCoding, .unsupportedExpectation:
      true
    default: false
    }
  }

  /// The status of the response.
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

  /// The error for a byte that a head may not contain. Nil for any other byte, and for CR, which may end a line.
  init?(forbidden byte: UInt8) {
    guard byte.isControl, byte != .carriageReturn else { return nil }
    self = byte == .lineFeed ? .bareLineFeed : .controlCharacter
  }
}

/// The limits of the HTTP/1.1 codec, each with default and unit. A message that exceeds a limit is refused with the error
/// named there. Some are settings of the server (`ServerSettings`), with their reasons.
public struct HTTP1Limits: Sendable, Equatable {
  /// The maximum length of a method in bytes: 32. The longest registered method (`UPDATEREDIRECTREF`) has 17. A peer
  /// that sends an endless first word does not speak HTTP. ``RequestError/methodTooLong`` (501, RFC 9112 §3).
  public var method = 32
  /// The maximum length of a request line without its CRLF, in bytes: 8 KiB. ``RequestError/requestLineTooLong`` (414).
  public var requestLine = 8192
  /// The maximum size of a header section in bytes: 32 KiB. CRLFs count, but not request line and final empty line.
  /// Browsers and proxies stay below 16 KiB. ``RequestError/headerSectionTooLarge`` (431).
  public var headerSection = 32768
  /// The maximum number of field lines in each section: 100. ``RequestError/tooManyFieldLines`` (431).
  public var fieldLines = 100
  /// The maximum number of interim responses: 8. One is usual. ``ResponseError/tooManyInterimResponses``.
  public var interimResponses = 8
  /// The maximum size of all chunk extensions of a body in bytes: 4 KiB. ``RequestError/chunkExtensionsTooLong`` (400).
  public var chunkExtensions = 4096
  /// The maximum size of a trailer section in bytes with CRLFs: 8 KiB. ``RequestError/trailerSectionTooLarge`` (431).
  public var trailerSection = 8192

  /// Creates the default limits.
  public init() {}
}
