import Bytes

/// An incremental parser of request heads (RFC 9112 §2–§6). It is strict where leniency has allowed attacks.
///
/// The caller passes the received bytes from the first byte of the head, and after more have arrived, the same bytes and
/// the new ones. The parser scans each byte once, and interprets each line once, at its LF, so its work is linear. It
/// reports a violation as soon as its byte is there. The way the bytes were split does not change the result.
public struct RequestHeadParser: Sendable {
  /// The part of the head that the byte at ``position`` belongs to.
  private enum Phase {
    case start, method, target, fieldLines, complete
  }

  /// The head, valid once ``parse(_:)`` has returned a length and until ``reset()``.
  public package(set) var head = RequestHead()

  /// The index of the first unscanned byte. In the request line, a CR stays unscanned until the next byte arrives.
  private(set) var position = 0

  private let limits: HTTP1Limits
  private var phase = Phase.start
  private var lineStart = 0
  private var methodEnd = 0
  private var scanner: FieldLineScanner
  private var facts = FieldFacts()
  private var refusal: RequestError?
  /// The size of the header section so far, if its fields come one by one.
  private var takenBytes = 0

  /// Creates a parser for the first byte of a request.
  public init(limits: HTTP1Limits = .init()) {
    self.limits = limits
    scanner = FieldLineScanner(limits: limits)
  }

  /// Prepares the parser for another request. It keeps all storage, so that later requests allocate nothing.
  public mutating func reset() {
    head.reset()
    position = 0
    phase = .start
    lineStart = 0
    facts = FieldFacts()
    refusal = nil
    takenBytes = 0
  }

  /// Parses the new bytes of all received since the end of the last message.
  /// - Returns: The length of the head, including an empty line before it, or nil if it is incomplete.
  /// - Throws: ``RequestError``. Later calls throw the same error until ``reset()``.
  public mutating func parse(_ bytes: Span<UInt8>) throws(RequestError) -> Int? {
    if let refusal { throw refusal }
    do {
      while phase != .complete {
        guard position < bytes.count, try advance(in: bytes) else { return nil }
      }
      return position
    } catch {
      refusal = error
      throw error
    }
  }

  /// Completes one phase. Returns false if the phase needs more bytes.
  private mutating func advance(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    switch phase {
    case .start: try skipEmptyLine(in: bytes)
    case .method: try scanMethod(in: bytes)
    case .target: try scanTarget(in: bytes)
    case .fieldLines: try readFieldLine(in: bytes)
    case .complete: true
    }
  }

  /// Skips one empty line before the request line, which some clients send after a body (RFC 9112 §2.2). The parser
  /// refuses a second one, so that a client cannot keep a connection open with empty lines.
  private mutating func skipEmptyLine(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    if bytes[position] == .carriageReturn {
      guard try bytes.hasLineFeed(after: position) else { return false }
      guard position == 0 else { throw .repeatedEmptyLine }
      position = 2
      return true
    }
    lineStart = position
    phase = .method
    return true
  }

  private mutating func scanMethod(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    while position < bytes.count {
      let byte = bytes[position]
      if byte == .space {
        guard position > lineStart else { throw .malformedRequestLine }
        methodEnd = position
        position &+= 1
        phase = .target
        return true
      }
      guard ByteSet.token.contains(byte) else {
        throw byte == .carriageReturn ? .malformedRequestLine : RequestError(forbidden: byte) ?? .malformedMethod
      }
      guard position &- lineStart < limits.method else { throw .methodTooLong }
      position &+= 1
    }
    return false
  }

  /// Scans target and version to the end of the request line, and then interprets the line.
  private mutating func scanTarget(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    position = bytes.firstControl(from: position)
    guard position &- lineStart <= limits.requestLine else { throw .requestLineTooLong }
    guard position < bytes.count else { return false }
    let byte = bytes[position]
    guard byte == .carriageReturn else { throw RequestError(forbidden: byte) ?? .controlCharacter }
    guard try bytes.hasLineFeed(after: position) else { return false }
    try head.interpretRequestLine(lineStart..<position, methodEnd: methodEnd, in: bytes)
    position &+= 2
    scanner = FieldLineScanner(at: position, limits: limits)
    phase = .fieldLines
    return true
  }

  private mutating func readFieldLine(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    switch try scanner.next(in: bytes, from: &position) {
    case .needMore: return false
    case .line(let name, let content):
      let line = FieldLine(name: name, content: content, in: bytes)
      head.fields.append(line)
      try facts.note(line, of: &head, in: bytes)
    case .end: try takeEnd()
    }
    return true
  }

  /// Takes the control data of a request in HTTP/2, in place of a request line. The rules of ``parse(_:)`` apply to them
  /// and to the fields, which follow. `bytes` is the buffer with all parts of the head.
  /// - Throws: ``RequestError``. The parser must not be used after that until ``reset()``.
  public mutating func take(_ control: RequestControlData, in bytes: Span<UInt8>) throws(RequestError) {
    guard bytes.isToken(control.method) else { throw .malformedMethod }
    guard control.method.count <= limits.method else { throw .methodTooLong }
    // The length of the request line with two spaces and the version.
    guard control.method.count &+ control.target.count &+ 10 <= limits.requestLine else { throw .requestLineTooLong }
    try head.interpret(control, in: bytes)
    phase = .fieldLines
  }

  /// Takes the next field of a request in HTTP/2. The authority comes as Host (RFC 9113 §8.3.1).
  public mutating func take(name: Range<Int>, value: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    guard head.fields.count < limits.fieldLines else { throw .tooManyFieldLines }
    // The length of the line with its colon, space and end.
    takenBytes &+= name.count &+ value.count &+ 4
    guard takenBytes <= limits.headerSection else { throw .headerSectionTooLarge }
    guard !name.isEmpty else { throw .emptyFieldName }
    guard bytes.isToken(name) else { throw .malformedFieldName }
    guard bytes.extracting(value).endOfText(from: 0) == value.count else { throw .controlCharacter }
    let line = FieldLine(name: name, content: value, in: bytes)
    head.fields.append(line)
    try facts.note(line, of: &head, in: bytes)
  }

  /// Completes the head of a request in HTTP/2.
  public mutating func takeEnd() throws(RequestError) {
    try facts.complete(&head)
    phase = .complete
  }
}

/// The control data of a request in HTTP/2 (RFC 9113 §8.3.1), as ranges of the buffer with the head.
public struct RequestControlData: Sendable {
  /// `:method`.
  public var method = 0..<0
  /// `:scheme`. Empty for CONNECT.
  public var scheme = 0..<0
  /// `:path` with its query. Empty for CONNECT.
  public var path = 0..<0
  /// `:authority`, or nil if the request has none.
  public var authority: Range<Int>?

  /// Creates control data without any part.
  public init() {}

  /// The request target: the path, or for CONNECT the authority.
  var target: Range<Int> { path.isEmpty ? authority ?? 0..<0 : path }
}

/// The properties of host, framing, connection and proxies that the field lines have stated so far.
private struct FieldFacts: Sendable {
  private var host: Range<Int>?
  private var connection = ConnectionFacts()
  private var expectsContinue = false

  /// Records one field line of `head`, which also gets the marks of fields that need no check.
  mutating func note(_ line: FieldLine, of head: inout RequestHead, in bytes: Span<UInt8>) throws(RequestError) {
    let name = line.name
    switch name.count {
    case 4 where bytes.equalsIgnoringCase(name, "host"): try noteHost(line.value, in: bytes)
    case 6 where bytes.equalsIgnoringCase(name, "expect"):
      // A 100-continue in HTTP/1.0 must be ignored (RFC 9110 §10.1.1), and Expect has no other meaning there.
      if head.version == .http11 { try noteExpectations(line.value, in: bytes) }
    case 9 where bytes.equalsIgnoringCase(name, "forwarded"): head.forwarding.insert(.forwarded)
    case 10 where bytes.equalsIgnoringCase(name, "connection"): noteConnectionOptions(line.value, in: bytes)
    case 11 where bytes.equalsIgnoringCase(name, "traceparent"): head.hasTraceParent = true
    case 12 where bytes.equalsIgnoringCase(name, "x-request-id"): head.forwarding.insert(.requestID)
    case 14 where bytes.equalsIgnoringCase(name, "content-length"): try noteContentLength(line.value, in: bytes)
    case 15 where bytes.equalsIgnoringCase(name, "x-forwarded-for"): head.forwarding.insert(.forwardedFor)
    case 16
    where bytes.equalsIgnoringCase(name, "music-user-token") || bytes.equalsIgnoringCase(name, "media-user-token"):
      head.hasUserToken = true
    case 17 where bytes.equalsIgnoringCase(name, "transfer-encoding"):
      try connection.noteTransferEncoding(in: head.version)
      if !bytes.equalsIgnoringCase(line.value, "chunked") { throw Self.refusal(ofCodings: line.value, in: bytes) }
    default: break
    }
  }

  /// Sets the head's properties at the end of the header section.
  func complete(_ head: inout RequestHead) throws(RequestError) {
    guard host != nil || head.version == .http10 else { throw .missingHost }
    // The target's authority has precedence over Host (RFC 9112 §3.2.2).
    if let host, head.targetForm != .absolute, head.targetForm != .authority { head.authority = host }
    // RFC 9112 §6.3: a request without either field has no body.
    head.framing = connection.framing ?? .none
    head.keepAlive = connection.isKept(in: head.version)
    head.hasExpectation = expectsContinue
  }

  /// Records Host: exactly one, and well-formed (RFC 9112 §3.2). http and https URIs have an authority (RFC 9110 §7.2).
  private mutating func noteHost(_ value: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    guard host == nil else { throw .repeatedHost }
    guard bytes.isAuthority(value) else { throw .malformedHost }
    host = value
  }

  /// Records Content-Length: one number. RFC 9110 §8.6 allows a list of equal numbers; this server does not.
  private mutating func noteContentLength(_ value: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    guard connection.contentLength == nil else { throw .repeatedContentLength }
    guard !connection.isChunked else { throw .contentLengthWithTransferEncoding }
    guard let length = bytes.decimal(in: value) else { throw .malformedContentLength }
    connection.contentLength = length
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
      if index - start >= 5 { connection.noteOption(bytes.trimmingWhitespace(start..<index), in: bytes) }
      start = index + 1
    }
    connection.noteOption(bytes.trimmingWhitespace(start..<value.upperBound), in: bytes)
  }
}
