import Bytes
import HTTPTypes

/// What the field lines of a response seen so far say about its framing and its connection.
struct ResponseFacts: Sendable {
  private(set) var contentLength: Int?
  private var isChunked = false
  private var asksToClose = false
  private var asksToKeepAlive = false
  /// Names of fields that are for the connection only, in lower case.
  private var connectionFields: Set<ByteString> = []

  /// Takes one field line into account.
  mutating func note(_ line: FieldLine, version: HTTPVersion, in bytes: Span<UInt8>) throws(ResponseError) {
    let name = line.name
    switch name.count {
    case 10 where bytes.equalsIgnoringCase(name, "connection"):
      noteConnectionOptions(line.value, in: bytes)
    case 14 where bytes.equalsIgnoringCase(name, "content-length"):
      try noteContentLength(line.value, in: bytes)
    case 17 where bytes.equalsIgnoringCase(name, "transfer-encoding"):
      try noteTransferEncoding(line.value, version: version, in: bytes)
    default: break
    }
  }

  /// Draws the conclusions at the end of the header section, in the order of RFC 9112 §6.3.
  func complete(_ head: inout ResponseHead, answering method: HTTPRequest.Method) {
    head.contentLength = contentLength
    head.framing =
      if method == .head || head.status == 204 || head.status == 304 {
        .none
      } else if method == .connect, head.status < 300 {
        .none
      } else if isChunked {
        .chunked
      } else {
        contentLength.map { .fixed($0) } ?? .untilClose
      }
    // RFC 9112 §9.3: "close" wins, then the version decides, then "keep-alive".
    head.keepAlive =
      !asksToClose && (head.version == .http11 || asksToKeepAlive) && head.framing != .untilClose
  }

  /// Whether the field named so is for the connection only (RFC 9110 §7.6.1, and what else HTTP/1.1 has of that kind).
  func isForConnection(_ lowercaseName: String) -> Bool {
    switch lowercaseName {
    case "connection", "content-length", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer",
      "transfer-encoding", "upgrade":
      true
    default: !connectionFields.isEmpty && connectionFields.contains(ByteString(lowercaseName))
    }
  }
}

extension ResponseFacts {
  /// Content-Length: a number, or the same number more than once, which some proxies make of it (RFC 9110 §8.6).
  private mutating func noteContentLength(_ value: Range<Int>, in bytes: Span<UInt8>) throws(ResponseError) {
    guard !isChunked else { throw .malformed(.contentLengthWithTransferEncoding) }
    var elements = ListElements(value)
    while let element = elements.next(in: bytes) {
      guard let length = bytes.decimal(in: element) else { throw .malformed(.malformedContentLength) }
      guard contentLength == nil || contentLength == length else { throw .conflictingContentLength }
      contentLength = length
    }
  }

  /// Transfer-Encoding: one field line, with `chunked` alone (RFC 9112 §6.1): no other coding was asked for by TE.
  private mutating func noteTransferEncoding(
    _ value: Range<Int>, version: HTTPVersion, in bytes: Span<UInt8>
  ) throws(ResponseError) {
    guard version == .http11 else { throw .malformed(.transferEncodingInHTTP10) }
    guard !isChunked else { throw .malformed(.repeatedTransferEncoding) }
    guard contentLength == nil else { throw .malformed(.contentLengthWithTransferEncoding) }
    guard bytes.equalsIgnoringCase(value, "chunked") else { throw .malformed(.unsupportedTransferCoding) }
    isChunked = true
  }

  private mutating func noteConnectionOptions(_ value: Range<Int>, in bytes: Span<UInt8>) {
    var options = ListElements(value)
    while let option = options.next(in: bytes) {
      if bytes.equalsIgnoringCase(option, "close") {
        asksToClose = true
      } else if bytes.equalsIgnoringCase(option, "keep-alive") {
        asksToKeepAlive = true
      } else if !option.isEmpty {
        connectionFields.insert(ByteString(option.map { bytes[$0] }).lowercasedASCII)
      }
    }
  }
}
