import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes

/// Responses with content that comes in parts.
extension Connection {
  /// Writes such a response at the client's pace, after earlier responses were sent. Returns the next step.
  func stream(
    _ response: Response, from reader: any ContentReader, to request: Request, bodyIsRead: Bool
  ) async throws(CloseReason) -> PendingStep {
    channel.loop.assertCurrent()
    let framing = StreamFraming(response, version: request.head.version, isHead: request.method == .head)
    let keepAlive =
      goesOn(after: response, to: request, bodyIsRead: bodyIsRead) && framing != .untilClose
    worker.append(
      response, framing: framing, id: request.id, version: request.head.version, keepAlive: keepAlive,
      to: &transport.output)
    var count = 0
    do throws(CloseReason) {
      if framing.isBodiless { reader.cancel() } else { try await copy(reader, framing, count: &count) }
    } catch {
      reader.cancel()
      record(request, response, bytes: count)
      throw error
    }
    record(request, response, bytes: count)
    return try conclude(request, keepAlive: keepAlive, bodyIsRead: bodyIsRead)
  }

  /// Writes the content, and counts its bytes.
  private func copy(
    _ reader: any ContentReader, _ framing: StreamFraming, count: inout Int
  ) async throws(CloseReason) {
    while let part = try await part(of: reader) {
      count += part.count
      switch framing {
      case .length(let length) where count > length: throw .brokenOff
      case .chunked: ResponseSerializer.appendChunk(part.span, to: &transport.output)
      case .none, .length, .untilClose: transport.output.append(contentsOf: part)
      }
      try await flush()
    }
    if case .length(let length) = framing, count < length { throw .brokenOff }
    if framing == .chunked { ResponseSerializer.appendLastChunk(to: &transport.output) }
  }

  /// Waits for the next part without holding buffers, and returns it.
  private func part(of reader: any ContentReader) async throws(CloseReason) -> [UInt8]? {
    if transport.output.isEmpty { transport.releaseBuffers() }
    state.partAwaited()
    defer { state.workEnded() }
    // The head of the response was sent, so there is no other way to refuse it.
    guard account() else { throw .brokenOff }
    watchForInterruption()
    defer {
      stopWatching()
      transport.borrowBuffers()
    }
    do {
      return try await reader.read()
    } catch {
      // The head of the response was sent, so an error response is no longer possible.
      guard case .gone = state.interruption else { throw .brokenOff }
      throw .gone
    }
  }
}

/// The framing of content that is sent in parts (RFC 9112 §6).
enum StreamFraming: Equatable {
  /// No content, because the status or the method does not allow it. The length is that of the response to a GET, if
  /// known.
  case none(length: Int?)
  case length(Int)
  case chunked
  /// By the end of the connection, the only framing of HTTP/1.0 without a length.
  case untilClose

  init(_ response: Response, version: HTTPVersion, isHead: Bool) {
    if isHead || [204, 304].contains(response.status.code) {
      self = .none(length: response.streamLength)
    } else if let length = response.streamLength {
      self = .length(length)
    } else {
      self = version == .http10 ? .untilClose : .chunked
    }
  }

  /// The value of `Content-Length`.
  var contentLength: Int? {
    switch self {
    case .none(let length): length
    case .length(let length): length
    case .chunked, .untilClose: nil
    }
  }

  var isBodiless: Bool {
    if case .none = self { true } else { false }
  }
}
