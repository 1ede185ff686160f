import Bytes

/// The properties of host, framing, connection and proxies that the field lines have stated so far.
struct FieldFacts: Sendable {
  private var host: Range<Int>?
  private var contentLength: Int?
  private var isChunked = false
  private var asksToClose = false
  private var asksToKeepAlive = false
  private var expectsContinue = false

  /// Records one field line of `head`, which also gets the marks of fields that need no check.
  mutating func note(_ line: FieldLine, of head: inout RequestHead, in bytes: Span<UInt8>) throws(RequestError) {
    let name = line.name
    switch name.count {
    case 4 where bytes.equalsIgnoringCase(name, "host"):
      try noteHost(line.value, in: bytes)
    case 6 where bytes.equalsIgnoringCase(name, "expect"):
      // A 100-continue in HTTP/1.0 must be ignored (RFC 9110 §10.1.1), and Expect has no other meaning there.
      if head.version == .http11 { try noteExpectations(line.value, in: bytes) }
    case 9 where bytes.equalsIgnoringCase(name, "forwarded"):
      head.forwarding.insert(.forwarded)
    case 10 where bytes.equalsIgnoringCase(name, "connection"):
      noteConnectionOptions(line.value, in: bytes)
    case 11 where bytes.equalsIgnoringCase(name, "traceparent"):
      head.hasTraceParent = true
    case 12 where bytes.equalsIgnoringCase(name, "x-request-id"):
      head.forwarding.insert(.requestID)
    case 14 where bytes.equalsIgnoringCase(name, "content-length"):
      try noteContentLength(line.value, in: bytes)
    case 15 where bytes.equalsIgnoringCase(name, "x-forwarded-for"):
      head.forwarding.insert(.forwardedFor)
    case 16
    where bytes.equalsIgnoringCase(name, "music-user-token") || bytes.equalsIgnoringCase(name, "media-user-token"):
      head.hasUserToken = true
    case 17 where bytes.equalsIgnoringCase(name, "transfer-encoding"):
      try noteTransferEncoding(line.value, version: head.version, in: bytes)
    default: break
    }
  }

  /// Sets the head's properties at the end of the header section.
  func complete(_ head: inout RequestHead) throws(RequestError) {
    guard host != nil || head.version == .http10 else { throw .missingHost }
    // The target's authority has precedence over Host (RFC 9112 §3.2.2).
    if let host, head.targetForm != .absolute, head.targetForm != .authority { head.authority = host }
    // RFC 9112 §6.3: a request without either field has no body.
    head.framing = isChunked ? .chunked : contentLength.map { .fixed($0) } ?? .none
    // RFC 9112 §9.3: "close" has precedence, then the version, then "keep-alive".
    head.keepAlive = !asksToClose && (head.version == .http11 || asksToKeepAlive)
    head.expectsContinue = expectsContinue && head.framing != .none
  }
}

extension FieldFacts {
  /// Records Host: exactly one, and well-formed (RFC 9112 §3.2). An empty one is only for URIs without an authority,
  /// but http and https URIs have one (RFC 9110 §7.2).
  private mutating func noteHost(_ value: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    guard host == nil else { throw .repeatedHost }
    guard Authority(value, in: bytes) != nil else { throw .malformedHost }
    host = value
  }

  /// Records Content-Length: one number. RFC 9110 §8.6 allows a list of equal numbers; this server does not.
  private mutating func noteContentLength(_ value: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    guard contentLength == nil else { throw .repeatedContentLength }
    guard !isChunked else { throw .contentLengthWithTransferEncoding }
    guard let length = bytes.decimal(in: value) else { throw .malformedContentLength }
    contentLength = length
  }

  /// Records Transfer-Encoding: one field line with only `chunked` (RFC 9112 §6.1).
  private mutating func noteTransferEncoding(
    _ value: Range<Int>, version: HTTPVersion, in bytes: Span<UInt8>
  ) throws(RequestError) {
    guard version == .http11 else { throw .transferEncodingInHTTP10 }
    guard !isChunked else { throw .repeatedTransferEncoding }
    guard contentLength == nil else { throw .contentLengthWithTransferEncoding }
    if !bytes.equalsIgnoringCase(value, "chunked") { throw Self.refusal(ofCodings: value, in: bytes) }
    isChunked = true
  }

  /// Returns the error for a list of codings other than `chunked`: not implemented if the list is well-formed and its
  /// framing would be clear or absent, otherwise malformed (RFC 9112 §6.1, §6.3).
  private static func refusal(ofCodings value: Range<Int>, in bytes: Span<UInt8>) -> RequestError {
    var elements = ListElements(value)
    var wasChunked = false
    while let coding = elements.next(in: bytes) {
      guard !wasChunked, bytes.isToken(coding) else { return .malformedTransferEncoding }
      wasChunked = bytes.equalsIgnoringCase(coding, "chunked")
    }
    return .unsupportedTransferCoding
  }

  /// Records Expect: only `100-continue` is supported, in any case (RFC 9110 §10.1.1).
  private mutating func noteExpectations(_ value: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    var elements = ListElements(value)
    while let expectation = elements.next(in: bytes) {
      if expectation.isEmpty { continue }
      guard bytes.equalsIgnoringCase(expectation, "100-continue") else { throw .unsupportedExpectation }
      expectsContinue = true
    }
  }

  /// Records Connection: a list of options in any case. Unknown options are ignored (RFC 9110 §7.6.1).
  private mutating func noteConnectionOptions(_ value: Range<Int>, in bytes: Span<UInt8>) {
    var start = value.lowerBound
    for index in value where bytes[index] == .comma {
      // A list may be all commas, so an element shorter than `close` must cost no more than its bytes.
      if index - start >= 5 { noteConnectionOption(start..<index, in: bytes) }
      start = index + 1
    }
    noteConnectionOption(start..<value.upperBound, in: bytes)
  }

  private mutating func noteConnectionOption(_ option: Range<Int>, in bytes: Span<UInt8>) {
    let option = bytes.trimmingWhitespace(option)
    if bytes.equalsIgnoringCase(option, "close") { asksToClose = true }
    if bytes.equalsIgnoringCase(option, "keep-alive") { asksToKeepAlive = true }
  }
}

extension Span<UInt8> {
  /// Returns whether the bytes in `range` are a token (RFC 9110 §5.6.2).
  fileprivate func isToken(_ range: Range<Int>) -> Bool {
    range.allSatisfy { ByteSet.token.contains(self[$0]) } && !range.isEmpty
  }
}

/// The elements of a comma-separated list (RFC 9110 §5.6.1), without surrounding white space.
///
/// It does not support quoted strings, because no list that the codec reads has a valid element with one.
struct ListElements {
  private var rest: Range<Int>?

  /// Creates the list for the field value in `range`. An empty value has one empty element.
  init(_ range: Range<Int>) {
    rest = range
  }

  /// Returns the next element, which may be empty, or nil after the last.
  mutating func next(in bytes: Span<UInt8>) -> Range<Int>? {
    guard let rest else { return nil }
    guard let comma = bytes.firstIndex(of: .comma, in: rest) else {
      self.rest = nil
      return bytes.trimmingWhitespace(rest)
    }
    self.rest = comma + 1..<rest.upperBound
    return bytes.trimmingWhitespace(rest.lowerBound..<comma)
  }
}
