import Bytes
public import HTTPTypes

/// An incremental parser of response heads (RFC 9112 §4–§6), like ``RequestHeadParser``. It skips interim responses.
public struct ResponseHeadParser: Sendable {
  private enum Phase { case statusLine, fieldLines, complete }

  /// The head of the final response, valid once ``parse(_:)`` has returned a length.
  public private(set) var head = ResponseHead()

  /// The index of the first unscanned byte. In the status line, a CR stays unscanned until the next byte arrives.
  private(set) var position = 0

  private var method: HTTPRequest.Method
  private let limits: HTTP1Limits
  private var phase = Phase.statusLine
  private var lineStart = 0
  private var scanner: FieldLineScanner
  private var lines: [FieldLine] = []
  private var facts = ResponseFacts()
  private var interimResponses = 0
  /// Room for the field lines of most responses, so that the array grows once.
  private static let usualLines = 16
  private var refusal: ResponseError?

  /// Creates a parser for the response to a request.
  /// - Parameter method: The request's method, because responses to HEAD and CONNECT have their own framing.
  public init(answering method: HTTPRequest.Method, limits: HTTP1Limits = .init()) {
    (self.method, self.limits) = (method, limits)
    scanner = FieldLineScanner(limits: limits)
  }

  /// Prepares for the response to the next request. The parser keeps its memory for field lines.
  public mutating func reset(answering method: HTTPRequest.Method) {
    var storage: [FieldLine] = []
    swap(&storage, &lines)
    storage.removeAll(keepingCapacity: true)
    self = ResponseHeadParser(answering: method, limits: limits)
    lines = storage
  }

  /// Parses the new bytes of all received since the request was sent.
  /// - Returns: The length of the head, including the interim responses before it, or nil if it is incomplete.
  /// - Throws: ``ResponseError``. All later calls throw the same error.
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

  /// Reads one line. Returns false if the line is incomplete.
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

  private mutating func readStatusLine(in bytes: Span<UInt8>) throws(ResponseError) -> Bool {
    // Bytes that cannot become a response are refused at once, not at the end of their first line.
    let beginning = lineStart..<min(lineStart &+ Self.protocolName.count, bytes.count)
    for index in beginning where bytes[index] != Self.protocolName[index &- lineStart] { throw .malformedStatusLine }
    position = bytes.endOfText(from: position)
    guard position &- lineStart <= limits.requestLine else { throw .malformedStatusLine }
    guard position < bytes.count else { return false }
    let byte = bytes[position]
    guard byte == .carriageReturn else { throw .malformed(RequestError(forbidden: byte) ?? .controlCharacter) }
    do { guard try bytes.hasLineFeed(after: position) else { return false } } catch { throw .malformed(error) }
    try interpretStatusLine(lineStart..<position, in: bytes)
    position &+= 2
    scanner = FieldLineScanner(at: position, limits: limits)
    lines.reserveCapacity(Self.usualLines)
    phase = .fieldLines
    return true
  }

  private static let protocolName: InlineArray<5, UInt8> = [0x48, 0x54, 0x54, 0x50, 0x2F]  // HTTP/

  /// Interprets `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4). Many servers omit the second space.
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

  /// Completes a header section at its empty line. After an interim response, another one follows (RFC 9110 §15.2).
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
    if let start = lines.first?.name.lowerBound {
      let named = facts.connectionFields
      // Fields that are only for the connection, by their names or because Connection names them.
      lines.removeAll { line in
        bytes.isOfConnection(line.name) || bytes.equalsIgnoringCase(line.name, "proxy-authenticate")
          || !named.isEmpty && named.contains(ByteString(line.name.map { bytes[$0] }).lowercasedASCII)
      }
      head.fields = FieldLines(received: bytes.extracting(start..<position), from: start, lines)
    }
    phase = .complete
  }
}

/// The content of a final response's head.
public struct ResponseHead: Sendable, Equatable {
  /// The status code, 200 to 599.
  public internal(set) var status = 0
  /// The protocol version.
  public internal(set) var version = HTTPVersion.http11
  /// The valid end-to-end fields, in the order received. The connection's fields are removed: Connection and the fields
  /// that it names (RFC 9110 §7.6.1), and Content-Length, which is in ``contentLength``.
  public internal(set) var fields = FieldLines()
  /// The value of Content-Length. In a response to HEAD or a 304, it is not the length of the content that follows.
  public internal(set) var contentLength: Int?
  /// The framing of the content.
  public internal(set) var framing = MessageFraming.untilClose
  /// Whether the connection can carry another request after this response (RFC 9112 §9.3).
  public internal(set) var keepAlive = true
}

/// The properties of framing and connection that the field lines of a response have stated so far.
private struct ResponseFacts: Sendable {
  private var connection = ConnectionFacts()
  /// Lower-case names of the fields that are only for the connection.
  private(set) var connectionFields: Set<ByteString> = []

  mutating func note(_ line: FieldLine, version: HTTPVersion, in bytes: Span<UInt8>) throws(ResponseError) {
    let name = line.name
    switch name.count {
    case 10 where bytes.equalsIgnoringCase(name, "connection"): noteConnectionOptions(line.value, in: bytes)
    case 14 where bytes.equalsIgnoringCase(name, "content-length"): try noteContentLength(line.value, in: bytes)
    case 17 where bytes.equalsIgnoringCase(name, "transfer-encoding"):
      do { try connection.noteTransferEncoding(in: version) } catch { throw .malformed(error) }
      // TE requests no other coding.
      guard bytes.equalsIgnoringCase(line.value, "chunked") else { throw .malformed(.unsupportedTransferCoding) }
    default: break
    }
  }

  /// Sets the head's framing and connection at the end of the header section, in the order of RFC 9112 §6.3.
  func complete(_ head: inout ResponseHead, answering method: HTTPRequest.Method) {
    head.contentLength = connection.contentLength
    let hasNoContent =
      method == .head || head.status == 204 || head.status == 304 || method == .connect && head.status < 300
    head.framing = hasNoContent ? .none : connection.framing ?? .untilClose
    head.keepAlive = connection.isKept(in: head.version) && head.framing != .untilClose
  }

  /// Records Content-Length: a number, or equal numbers in a list, as some proxies send it (RFC 9110 §8.6).
  private mutating func noteContentLength(_ value: Range<Int>, in bytes: Span<UInt8>) throws(ResponseError) {
    guard !connection.isChunked else { throw .malformed(.contentLengthWithTransferEncoding) }
    var elements = ListElements(value)
    while let element = elements.next(in: bytes) {
      guard let length = bytes.decimal(in: element) else { throw .malformed(.malformedContentLength) }
      guard connection.contentLength ?? length == length else { throw .conflictingContentLength }
      connection.contentLength = length
    }
  }

  private mutating func noteConnectionOptions(_ value: Range<Int>, in bytes: Span<UInt8>) {
    var options = ListElements(value)
    while let option = options.next(in: bytes) {
      if !connection.noteOption(option, in: bytes), !option.isEmpty {
        connectionFields.insert(ByteString(option.map { bytes[$0] }).lowercasedASCII)
      }
    }
  }
}

/// The reason why a response is refused. Every case ends the connection, because the next message has no clear start.
public enum ResponseError: Error, Equatable, Sendable {
  /// Not `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4), or bytes before it.
  case malformedStatusLine
  case unsupportedVersion, tooManyInterimResponses
  /// 101, although the request did not request another protocol (RFC 9110 §15.2.2).
  case unaskedUpgrade
  /// More than one Content-Length, with different values (RFC 9112 §6.3).
  case conflictingContentLength
  /// An error that also applies to requests: in field lines, framing or chunks.
  case malformed(RequestError)

  /// One sentence for the operator. It contains nothing of the received bytes.
  public var reason: String {
    switch self {
    case .malformedStatusLine: "It does not begin with a version and a status code."
    case .unsupportedVersion: "Its version is neither HTTP/1.1 nor HTTP/1.0."
    case .tooManyInterimResponses: "Too many interim responses precede it."
    case .unaskedUpgrade: "It switches to another protocol, which the request did not want."
    case .conflictingContentLength: "It has more than one Content-Length, and they differ."
    case .malformed(let error): error.reason
    }
  }
}
