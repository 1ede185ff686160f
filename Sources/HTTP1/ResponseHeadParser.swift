import Bytes
public import HTTPTypes

/// An incremental parser of response heads (RFC 9112 §4–§6), as strict as ``RequestHeadParser`` and fed like it.
///
/// Interim responses are skipped, up to a limit. Each byte is scanned once, each line is interpreted once, at the LF that
/// ends it; the verdict is the same however the bytes were split.
public struct ResponseHeadParser: Sendable {
  private enum Phase { case statusLine, fieldLines, complete }

  /// The head of the final response, valid once ``parse(_:)`` has returned a length.
  public private(set) var head = ResponseHead()

  /// The first byte that has not been looked at. A CR waits here for the byte after it.
  private(set) var position = 0

  private let method: HTTPRequest.Method
  private let limits: HTTP1Limits
  private var phase = Phase.statusLine
  private var lineStart = 0
  private var scanner: FieldLineScanner
  private var lines: [FieldLine] = []
  private var facts = ResponseFacts()
  private var interimResponses = 0
  private var refusal: ResponseError?

  /// Makes a parser for the response to a request.
  /// - Parameter method: The request's method: responses to HEAD and CONNECT are framed in their own way.
  public init(answering method: HTTPRequest.Method, limits: HTTP1Limits = .init()) {
    self.method = method
    self.limits = limits
    scanner = FieldLineScanner(headerSectionAt: 0, limits: limits)
  }

  /// Looks at the bytes that it has not seen yet.
  ///
  /// - Parameter bytes: Everything received since the request was sent; on a later call the same and more.
  /// - Returns: The length of the head, interim responses before it included, so that the content begins there; nil if
  ///   more bytes are needed.
  /// - Throws: ``ResponseError``, and the same one ever after.
  public mutating func parse(_ bytes: Span<UInt8>) throws(ResponseError) -> Int? {
    if let refusal { throw refusal }
    do {
      while phase != .complete {
        guard try advance(in: bytes) else { return nil }
      }
      return position
    } catch {
      refusal = error
      throw error
    }
  }

  /// Reads one line. False if that takes more bytes.
  private mutating func advance(in bytes: Span<UInt8>) throws(ResponseError) -> Bool {
    guard phase == .fieldLines else { return try readStatusLine(in: bytes) }
    let event: FieldLineScanner.Event
    do { event = try scanner.next(in: bytes, from: &position) } catch { throw .malformed(error) }
    switch event {
    case .needMore: return false
    case .line(let name, let content):
      let line = FieldLine(name: name, content: content, in: bytes)
      lines.append(line)
      try facts.note(line, version: head.version, in: bytes)
    case .end: try completeSection(in: bytes)
    }
    return true
  }
}

// MARK: Status line

extension ResponseHeadParser {
  private mutating func readStatusLine(in bytes: Span<UInt8>) throws(ResponseError) -> Bool {
    try expectVersion(in: bytes)
    position = bytes.endOfText(from: position)
    guard position &- lineStart <= limits.requestLine else { throw .malformedStatusLine }
    guard position < bytes.count else { return false }
    let byte = bytes[position]
    guard byte == .carriageReturn else { throw .malformed(RequestError(forbidden: byte) ?? .controlCharacter) }
    guard position &+ 1 < bytes.count else { return false }
    guard bytes[position &+ 1] == .lineFeed else { throw .malformed(.bareCarriageReturn) }
    try interpretStatusLine(lineStart..<position, in: bytes)
    position &+= 2
    scanner = FieldLineScanner(headerSectionAt: position, limits: limits)
    phase = .fieldLines
    return true
  }

  /// Refuses at once what will never be a response, instead of waiting for the end of its first line.
  private func expectVersion(in bytes: Span<UInt8>) throws(ResponseError) {
    let start = lineStart..<min(lineStart &+ 5, bytes.count)
    let isBeginning = start.isEmpty || zip(start, "HTTP/".utf8).allSatisfy { bytes[$0] == $1 }
    guard isBeginning else { throw .malformedStatusLine }
  }

  /// `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4). The space before a phrase that is not there may
  /// be missing, as it is in the responses of many servers.
  private mutating func interpretStatusLine(_ line: Range<Int>, in bytes: Span<UInt8>) throws(ResponseError) {
    let start = line.lowerBound
    guard
      line.count >= 12, let major = bytes[start &+ 5].decimalDigit, bytes[start &+ 6] == .period,
      let minor = bytes[start &+ 7].decimalDigit, bytes[start &+ 8] == .space,
      let status = bytes.decimal(in: start &+ 9..<start &+ 12), (100...599).contains(status),
      line.count == 12 || bytes[start &+ 12] == .space
    else { throw .malformedStatusLine }
    guard major == 1 else { throw .unsupportedVersion }
    guard status != 101 else { throw .unaskedUpgrade }
    head.version = minor == 0 ? .http10 : .http11
    head.status = status
  }
}

// MARK: End of the header section

extension ResponseHeadParser {
  /// At the empty line: goes on to the next response if this was an interim one (RFC 9110 §15.2).
  private mutating func completeSection(in bytes: Span<UInt8>) throws(ResponseError) {
    if head.status < 200 {
      interimResponses += 1
      guard interimResponses <= limits.interimResponses else { throw .tooManyInterimResponses }
      lines.removeAll(keepingCapacity: true)
      facts = ResponseFacts()
      lineStart = position
      phase = .statusLine
      return
    }
    facts.complete(&head, answering: method)
    head.fields = endToEndFields(in: bytes)
    phase = .complete
  }

  private func endToEndFields(in bytes: Span<UInt8>) -> HTTPFields {
    var fields = HTTPFields()
    fields.reserveCapacity(lines.count)
    for line in lines {
      // Valid both: a name was checked to be a token, and a value to have no control characters.
      guard let name = HTTPField.Name(bytes.string(in: line.name)), !facts.isForConnection(name.canonicalName) else {
        continue
      }
      let value = unsafe bytes.extracting(line.value).withUnsafeBufferPointer { buffer in
        // Safe: the field copies the bytes.
        unsafe HTTPField(name: name, value: buffer)
      }
      fields.append(value)
    }
    return fields
  }
}

/// What the head of a final response says.
public struct ResponseHead: Sendable, Equatable {
  /// The status code, 200 to 599.
  public internal(set) var status = 0
  /// The version of the protocol.
  public internal(set) var version = HTTPVersion.http11
  /// The end-to-end fields, in the order received, and valid. Those of the connection are gone: Connection and what it
  /// names (RFC 9110 §7.6.1), and Content-Length, which is ``contentLength``.
  public internal(set) var fields = HTTPFields()
  /// What Content-Length says. Not what comes, in a response to HEAD or a 304.
  public internal(set) var contentLength: Int?
  /// How the content is framed.
  public internal(set) var framing = ResponseFraming.untilClose
  /// Whether the connection can carry another request after this response (RFC 9112 §9.3).
  public internal(set) var keepAlive = true

  init() {}
}

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

/// How the length of a response's content is determined (RFC 9112 §6.3).
public enum ResponseFraming: Sendable, Equatable {
  /// There is no content: a response to HEAD, to CONNECT that succeeded, 204 or 304.
  case none
  /// Content-Length: that many bytes, zero among them.
  case fixed(Int)
  /// Transfer-Encoding: chunked.
  case chunked
  /// Neither: the content ends with the connection.
  case untilClose
}

/// Why a response is refused. Every case ends the connection: what follows such a message cannot be told apart from it.
public enum ResponseError: Error, Equatable, Sendable {
  /// Not `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4), or something before it.
  case malformedStatusLine
  /// A major version other than 1.
  case unsupportedVersion
  /// More interim responses than ``HTTP1Limits/interimResponses``.
  case tooManyInterimResponses
  /// 101, to a request that asked for no other protocol (RFC 9110 §15.2.2).
  case unaskedUpgrade
  /// More than one Content-Length, and not the same (RFC 9112 §6.3).
  case conflictingContentLength
  /// What a request would be refused for as well: its field lines, its framing, its chunks.
  case malformed(RequestError)

  /// One sentence for the operator. It holds nothing of what was received.
  public var reason: String {
    switch self {
    case .malformedStatusLine: "It does not begin with a version and a status code."
    case .unsupportedVersion: "Its version is neither HTTP/1.1 nor HTTP/1.0."
    case .tooManyInterimResponses: "Too many interim responses precede it."
    case .unaskedUpgrade: "It switches to another protocol, which was not asked for."
    case .conflictingContentLength: "It has more than one Content-Length, and they differ."
    case .malformed(let error): error.reason
    }
  }
}
