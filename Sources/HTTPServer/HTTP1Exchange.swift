import HTTP1
import HTTPMessages

/// One request of HTTP/1.1 and its content, taken from the bytes that have arrived. It knows no socket and no clock.
struct HTTP1Exchange {
  /// The request that is being read or answered.
  var request: Request?
  /// Content of `request` that is still to come; nil if none is waited for at rest.
  private(set) var content: PendingContent?

  // MARK: The head

  /// Whether the bytes are an empty line and nothing follows. Some clients send one behind content (RFC 9112 §2.2); no
  /// request has begun then.
  func isEmptyLine(_ bytes: Span<UInt8>) -> Bool {
    request == nil && bytes.count == 2 && bytes[0] == 0x0D && bytes[1] == 0x0A
  }

  /// Takes the head that `bytes` begin with into `request`. Returns its length; nil if more has to come.
  static func takeHead(_ bytes: Span<UInt8>, into request: Request) throws(CloseReason) -> Int? {
    do {
      guard let length = try request.parser.parse(bytes) else { return nil }
      request.keep(bytes.extracting(..<length))
      return length
    } catch {
      throw .refused(ErrorResponse(error))
    }
  }

  // MARK: Content that is read at rest

  /// Begins to read content.
  mutating func beginContent(_ use: PendingContent.Use, framing: MessageFraming, limits: HTTP1Limits) {
    content = PendingContent(use, framing: framing, limits: limits)
  }

  /// Takes content from the front of `bytes`. Returns how many bytes that was, and the content if it is complete. An
  /// error ends the content.
  mutating func takeContent(_ bytes: borrowing [UInt8], from start: Int) throws(CloseReason) -> (Int, PendingContent?) {
    guard var content = content.take() else { return (0, nil) }
    var position = start
    while true {
      let (count, event) = try content.body.next(bytes.span.extracting(position...))
      if case .data(let range) = event {
        try content.take(bytes[position + range.lowerBound..<position + range.upperBound])
      }
      position += count
      if event == .end { return (position - start, content) }
      if event == .needMore {
        self.content = content
        return (position - start, nil)
      }
    }
  }

  /// Nothing more is read of the content.
  mutating func dropContent() {
    content = nil
  }

  // MARK: Content that its operation does not read

  /// The length of the content at the front of `bytes`; nil if it goes on beyond what has arrived, or beyond `limit`.
  ///
  /// - Throws: A refusal if the framing is malformed: bytes that follow it are no request, and the client that sent it
  ///   must learn that (RFC 9112 §6.3, §7.1).
  static func lengthOfArrivedContent(
    _ bytes: Span<UInt8>, of head: RequestHead, limits: HTTP1Limits, limit: Int
  ) throws(CloseReason) -> Int? {
    guard head.framing != .none else { return 0 }
    // A client that waits for 100 may send the next request in place of the content.
    guard !head.expectsContinue else { return nil }
    var body = MessageBody(head.framing, limits: limits)
    var (position, length) = (0, 0)
    while length <= limit {
      let (count, event) = try body.next(bytes.extracting(position...))
      position += count
      switch event {
      case .data(let range): length += range.count
      case .needMore: return nil
      case .end: return position
      }
    }
    return nil
  }
}

/// Content of a request that is read before anything else is done: for its route, or because the next request is behind
/// it.
///
/// While it is incomplete the connection rests without a task. This value, and of the request what its response needs, are
/// all that it holds.
struct PendingContent {
  /// What the content is read for.
  enum Use {
    /// The route's response.
    case reply(limit: Int, @Sendable ([UInt8]) -> Reply, Router)
    /// Nothing: the response is given already.
    case none(limit: Int)

    var isForResponse: Bool { if case .reply = self { true } else { false } }
  }

  let use: Use
  fileprivate var body: MessageBody
  /// What has come of it, if it is read for the response.
  private(set) var received: [UInt8] = []
  private var discarded = 0

  fileprivate init(_ use: Use, framing: MessageFraming, limits: HTTP1Limits) {
    self.use = use
    body = MessageBody(framing, limits: limits)
  }

  fileprivate mutating func take(_ part: ArraySlice<UInt8>) throws(CloseReason) {
    switch use {
    case .reply(let limit, _, _):
      guard received.count + part.count <= limit else { throw .refused(.contentTooLarge(limit)) }
      received.append(contentsOf: part)
    case .none(let limit):
      discarded += part.count
      guard discarded <= limit else { throw .finished(lingers: true) }
    }
  }
}

/// Where in a request body its reader is, whichever way it is framed.
enum MessageBody {
  case fixed(remaining: Int)
  case chunked(ChunkedDecoder)

  init(_ framing: MessageFraming, limits: HTTP1Limits) {
    switch framing {
    case .none: self = .fixed(remaining: 0)
    case .fixed(let length): self = .fixed(remaining: length)
    case .chunked: self = .chunked(ChunkedDecoder(limits: limits))
    }
  }

  /// Takes bytes from the front of `bytes`: how many, and what they are.
  mutating func next(_ bytes: Span<UInt8>) throws(CloseReason) -> (consumed: Int, event: ChunkedDecoder.Event) {
    switch self {
    case .fixed(remaining: 0):
      return (0, .end)
    case .fixed(let remaining):
      let count = min(remaining, bytes.count)
      self = .fixed(remaining: remaining - count)
      return (count, count == 0 ? .needMore : .data(0..<count))
    case .chunked(var decoder):
      defer { self = .chunked(decoder) }
      do { return try decoder.decode(bytes) } catch { throw .refused(ErrorResponse(error)) }
    }
  }
}
