import Bytes

/// An incremental parser of request heads (RFC 9112 §2–§6), strict where leniency has been an attack.
///
/// Feed it the received bytes from the first byte of the head on; when more have come, feed it the same bytes and the
/// new ones. It remembers what it has looked at, so its work is linear in the bytes even if they come one at a time:
/// each byte is scanned once, each line is interpreted once, at the LF that ends it. A violation is reported as soon
/// as its bytes are there, and is the same however the bytes were split.
public struct RequestHeadParser: Sendable {
  /// What the byte at ``position`` belongs to.
  private enum Phase {
    case start, method, target, fieldLines, complete
  }

  /// The head, valid once ``parse(_:)`` has returned a length and until ``reset()``.
  public private(set) var head = RequestHead()

  /// The first byte that has not been looked at. A CR waits here for the byte after it.
  private(set) var position = 0

  private let limits: HTTP1Limits
  private var phase = Phase.start
  private var lineStart = 0
  private var methodEnd = 0
  private var scanner: FieldLineScanner
  private var facts = FieldFacts()
  private var refusal: RequestError?

  /// Makes a parser that is ready for the first byte of a request.
  public init(limits: HTTP1Limits = .init()) {
    self.limits = limits
    scanner = FieldLineScanner(headerSectionAt: 0, limits: limits)
  }

  /// Gets ready for another request. Keeps all storage, so that a connection's later requests allocate nothing. A copy
  /// of ``head`` that still exists makes the parser allocate again.
  public mutating func reset() {
    head.reset()
    position = 0
    phase = .start
    lineStart = 0
    facts = FieldFacts()
    refusal = nil
  }

  /// Gives up all of ``head`` that is about bytes, except the lines of one field. Returns their bytes, which are what the
  /// ranges in ``head`` are about from now on.
  ///
  /// - Parameters:
  ///   - bytes: The buffer that was parsed.
  ///   - lowercaseName: The name of that field; nil for none.
  public mutating func forgetHead(_ bytes: Span<UInt8>, except lowercaseName: StaticString?) -> [UInt8] {
    head.forget(bytes, except: lowercaseName)
  }

  /// Looks at the bytes that it has not seen yet.
  ///
  /// - Parameter bytes: Everything received since the end of the last message; on a later call the same and more.
  /// - Returns: The length of the head, an empty line before it included, so that the body begins there; nil if more
  ///   bytes are needed.
  /// - Throws: ``RequestError``, and the same one again until ``reset()``.
  public mutating func parse(_ bytes: Span<UInt8>) throws(RequestError) -> Int? {
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

  /// Completes one phase. False if that takes more bytes.
  private mutating func advance(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    guard position < bytes.count else { return false }
    switch phase {
    case .start: return try skipEmptyLine(in: bytes)
    case .method: return try scanMethod(in: bytes)
    case .target: return try scanTarget(in: bytes)
    case .fieldLines: return try readFieldLine(in: bytes)
    case .complete: return true
    }
  }
}

// MARK: Request line

extension RequestHeadParser {
  /// Skips one empty line before the request line, which some clients send after a body (RFC 9112 §2.2). The parser
  /// refuses a second one, so that a client cannot keep a connection with a flood of empty lines.
  private mutating func skipEmptyLine(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    if bytes[position] == .carriageReturn {
      guard try lineEnds(in: bytes) else { return false }
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

  /// Scans target and version, up to the end of the request line, and interprets the line there.
  private mutating func scanTarget(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    position = bytes.firstControl(from: position)
    guard position &- lineStart <= limits.requestLine else { throw .requestLineTooLong }
    guard position < bytes.count else { return false }
    let byte = bytes[position]
    guard byte == .carriageReturn else { throw RequestError(forbidden: byte) ?? .controlCharacter }
    guard try lineEnds(in: bytes) else { return false }
    try head.interpretRequestLine(lineStart..<position, methodEnd: methodEnd, in: bytes)
    position &+= 2
    scanner = FieldLineScanner(headerSectionAt: position, limits: limits)
    phase = .fieldLines
    return true
  }

  /// Whether the CR at ``position`` has its LF. False if the next byte is yet to come.
  private func lineEnds(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    guard position &+ 1 < bytes.count else { return false }
    guard bytes[position &+ 1] == .lineFeed else { throw .bareCarriageReturn }
    return true
  }
}

// MARK: Field lines

extension RequestHeadParser {
  private mutating func readFieldLine(in bytes: Span<UInt8>) throws(RequestError) -> Bool {
    switch try scanner.next(in: bytes, from: &position) {
    case .needMore: return false
    case .line(let name, let content):
      let line = FieldLine(name: name, content: content, in: bytes)
      head.fields.append(line)
      try facts.note(line, version: head.version, in: bytes)
    case .end:
      try facts.complete(&head)
      phase = .complete
    }
    return true
  }
}
