import EventLoop
import HTTP1
import HTTPMessages

/// The content of a request. It is read from the connection only when the handler asks for it.
final class RequestContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement, as the connection is.
  private let connection: Connection
  private var body: MessageBody
  private let end: Deadline
  private var mustContinue: Bool
  private var isCancelled = false

  /// Some of it has been asked for.
  private(set) var isBegun = false
  /// The whole has been read.
  private(set) var isFinished: Bool
  /// What went wrong, for the connection.
  private(set) var failure: CloseReason?
  /// The length that the client has said; 0 without content, nil if it comes in chunks.
  let declaredLength: Int?

  /// The content of a request with this head; none if that was read before.
  init(_ head: RequestHead, isRead: Bool, on connection: Connection) {
    self.connection = connection
    body = MessageBody(head.framing, limits: connection.worker.limits.http1)
    end = connection.now.advanced(by: connection.worker.limits.body)
    mustContinue = head.expectsContinue
    switch isRead ? .none : head.framing {
    case .none: (isFinished, declaredLength) = (true, 0)
    case .fixed(let length): (isFinished, declaredLength) = (length == 0, length)
    case .chunked: (isFinished, declaredLength) = (false, nil)
    }
  }

  func cancel() {
    guard !isFinished, !isCancelled else { return }
    isCancelled = true
    connection.channel.cancel()
  }

  func read() async throws(ContentError) -> [UInt8]? {
    guard !isFinished else { return nil }
    // The work is over, and the connection waits for something else: an upload may outlive its answer (RFC 9113 §8.1).
    guard !isCancelled else { throw .cancelled }
    isBegun = true
    // The read itself notices when the client has gone.
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
      let bytes = connection.input
      let start = connection.consumed
      let (count, event) = try body.next(bytes.span.extracting(start...))
      connection.consumed += count
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
      ResponseSerializer.appendContinue(to: &connection.output)
      try await connection.flush()
    }
    connection.borrowBuffers()
    try await connection.receiveMore(
      until: min(connection.now.advanced(by: connection.worker.limits.bodyProgress), end))
  }
}

extension ContentError {
  fileprivate init(_ ending: CloseReason) {
    switch ending {
    case .refused(let refusal): self = refusal.code == .requestTimeout ? .timedOut : .broken(refusal.detail)
    case .gone, .finished, .brokenOff, .failedTLS: self = .broken("The client has gone away.")
    }
  }
}
