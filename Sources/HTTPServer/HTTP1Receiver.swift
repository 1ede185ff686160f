import EventLoop
import HTTP1
import HTTPMessages

/// Receives one HTTP/1.1 request and its content, from bytes, without a socket or clock.
struct HTTP1Receiver {
  /// The request that is being read or handled.
  var request: Request?
  /// The present head if the codec has refused it, until its rest is read.
  var refused: RefusedHead?
  /// The framing of the request's content as long as the server has not read it; else `none`.
  var unreadContent = MessageFraming.none
  /// The content of `request` that is not complete, or nil if the connection waits for none.
  var content: PendingContent?

  /// Returns whether the bytes are only an empty line. Some clients send one after content (RFC 9112 §2.2); then no
  /// request has begun.
  func isEmptyLine(_ bytes: Span<UInt8>) -> Bool {
    request == nil && bytes.count == 2 && bytes[0] == 0x0D && bytes[1] == 0x0A
  }

  /// Reads content from the front of `bytes`. Returns the number of bytes, and the content if it is complete. An error
  /// ends the content.
  mutating func takeContent(_ bytes: borrowing [UInt8], from start: Int) throws(CloseReason) -> (Int, PendingContent?) {
    guard var content = content.take() else { return (0, nil) }
    var position = start
    while true {
      let (count, event) = try content.body.next(in: bytes.span.extracting(position...))
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

  /// Returns the length of the content at the front of `bytes`, or nil if it continues beyond the received bytes or
  /// `limit`.
  ///
  /// - Throws: A refusal if the framing is malformed. The following bytes are then not a request, and the client must
  ///   be notified (RFC 9112 §6.3, §7.1).
  static func lengthOfArrivedContent(
    _ bytes: Span<UInt8>, of head: RequestHead, limits: HTTP1Limits, limit: Int
  ) throws(CloseReason) -> Int? {
    // A client that waits for 100 may send the next request instead of the content.
    guard !head.expectsContinue else { return nil }
    var body = ContentDecoder(head.framing, limits: limits)
    var (position, length) = (0, 0)
    while length <= limit {
      let (count, event) = try body.next(in: bytes.extracting(position...))
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

/// Request content that is read before the next step: for its route, or because the next request follows it.
///
/// While the content is incomplete the connection waits without a task. It then holds only this value, and the parts of
/// the request that the response needs.
struct PendingContent {
  enum Use {
    case reply(limit: Int, @Sendable ([UInt8]) -> Reply)
    /// None: the response was already sent.
    case none(limit: Int)

    var isForResponse: Bool { if case .reply = self { true } else { false } }
  }

  let use: Use
  fileprivate var body: ContentDecoder
  /// The content so far, if it is read for the response.
  private(set) var received: [UInt8] = []
  private var discarded = 0

  init(_ use: Use, framing: MessageFraming, limits: HTTP1Limits) {
    self.use = use
    body = ContentDecoder(framing, limits: limits)
  }

  fileprivate mutating func take(_ part: ArraySlice<UInt8>) throws(CloseReason) {
    switch use {
    case .reply(let limit, _):
      guard received.count + part.count <= limit else { throw .refused(.contentTooLarge(limit)) }
      received.append(contentsOf: part)
    case .none(let limit):
      discarded += part.count
      guard discarded <= limit else { throw .finished(lingers: true) }
    }
  }
}

/// The deadlines of request content: for the whole content, and for the next part. A slow client makes progress, but is
/// not served forever.
struct ContentDeadlines: Equatable {
  private let end: Deadline
  private var progress: Deadline

  init(at now: Deadline, limits: ServerLimits) {
    end = now.advanced(by: limits.body)
    progress = now.advanced(by: limits.bodyProgress)
  }

  var next: Deadline { min(progress, end) }

  mutating func waitBegan(at now: Deadline, limits: ServerLimits) {
    progress = now.advanced(by: limits.bodyProgress)
  }
}

extension ContentDecoder {
  /// Takes bytes from the front of `bytes`, as ``decode(_:)`` does.
  ///
  /// - Throws: The refusal of malformed content.
  mutating func next(
    in bytes: Span<UInt8>
  ) throws(CloseReason) -> (consumed: Int, event: ChunkedDecoder.Event) {
    do { return try decode(bytes) } catch { throw .refused(ErrorResponse(error)) }
  }
}

/// The content of a request of HTTP/1.1. The server reads it from the connection only when the handler requests it.
final class HTTP1Content: ContentReader, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  private let connection: Connection
  private var body: ContentDecoder
  private let end: Deadline
  private var mustContinue: Bool
  private var isCancelled = false

  /// Whether the handler has requested content.
  private(set) var isBegun = false
  private(set) var isFinished: Bool
  /// The reason why reading failed, for the connection.
  private(set) var failure: CloseReason?
  /// The length that the client declared: 0 without content, nil if the content is chunked.
  let declaredLength: Int?

  init(_ head: RequestHead, on connection: Connection) {
    self.connection = connection
    body = ContentDecoder(head.framing, limits: connection.worker.limits.http1)
    end = connection.now.advanced(by: connection.worker.limits.body)
    mustContinue = head.expectsContinue
    switch head.framing {
    case .none: (isFinished, declaredLength) = (true, 0)
    case .fixed(let length): (isFinished, declaredLength) = (length == 0, length)
    case .chunked: (isFinished, declaredLength) = (false, nil)
    }
  }

  func cancel() {
    connection.channel.loop.assertCurrent()
    guard !isFinished, !isCancelled else { return }
    isCancelled = true
    connection.channel.cancel()
  }

  func read() async throws(ContentError) -> [UInt8]? {
    connection.channel.loop.assertCurrent()
    guard !isFinished else { return nil }
    // The work is over, and the connection waits for something else: an upload may outlive its response (RFC 9113
    // §8.1).
    guard !isCancelled else { throw .cancelled }
    isBegun = true
    // The read itself detects that the client has gone.
    connection.stopWatching()
    defer {
      if !isCancelled { failure == nil ? connection.watchForInterruption() : connection.waitForCancelledWork() }
    }
    do throws(CloseReason) {
      return try await part()
    } catch {
      guard !isCancelled else { throw .cancelled }
      failure = error
      throw ContentError(error)
    }
  }

  private func part() async throws(CloseReason) -> [UInt8]? {
    while true {
      guard !isCancelled else { throw .gone }
      let bytes = connection.transport.input
      let start = connection.transport.consumed
      let (count, event) = try body.next(in: bytes.span.extracting(start...))
      connection.transport.consumed += count
      switch event {
      case .data(let range): return Array(bytes[start + range.lowerBound..<start + range.upperBound])
      case .needMore: try await receiveMore()
      case .end:
        isFinished = true
        return nil
      }
    }
  }

  private func receiveMore() async throws(CloseReason) {
    if mustContinue {
      mustContinue = false
      ResponseSerializer.appendContinue(to: &connection.transport.output)
      try await connection.flush()
    }
    connection.transport.borrowBuffers()
    try await connection.receiveMore(
      until: min(connection.now.advanced(by: connection.worker.limits.bodyProgress), end))
  }
}

extension ContentError {
  fileprivate init(_ ending: CloseReason) {
    switch ending {
    case .refused(let refusal): self = refusal.code == .requestTimeout ? .timedOut : .broken(refusal.detail)
    case .gone, .finished, .brokenOff, .failedTLS: self = .broken("The client closed the connection.")
    }
  }
}
