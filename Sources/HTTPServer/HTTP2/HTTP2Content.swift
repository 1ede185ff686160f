import Bytes
import HTTP2
import HTTPMessages

/// The received content of a request on a stream, and its waiting reader. Unread content counts against the stream's
/// window, so that the client sends no more of it.
final class HTTP2Content: ContentReader, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  private let stream: HTTP2StreamID
  private weak var streams: HTTP2Streams?
  private var received: [UInt8] = []
  private(set) var isFinished = false
  private(set) var count = 0
  var isEmpty: Bool { received.isEmpty }
  private var failure: ContentError?
  private var wake: (() -> Void)?

  init(_ stream: HTTP2StreamID, of streams: HTTP2Streams) {
    self.stream = stream
    self.streams = streams
  }

  func append(_ bytes: Span<UInt8>) {
    received.append(copying: bytes)
    count += bytes.count
    wake.take()?()
  }

  func finish() {
    isFinished = true
    wake.take()?()
  }

  func fail(_ error: ContentError) {
    guard !isFinished else { return }
    failure = failure ?? error
    wake.take()?()
  }

  func discardHeld() -> Int {
    defer { received = [] }
    return received.count
  }

  func cancel() { fail(.cancelled) }

  func read() async throws(ContentError) -> [UInt8]? {
    while received.isEmpty {
      if let failure { throw failure }
      if isFinished { return nil }
      await unsafe withUnsafeContinuation { continuation in
        wake = { unsafe continuation.resume() }
      }
    }
    let part = received
    received = []
    if let streams {
      streams.contentBytes -= part.count
      // The client gets more window.
      streams.session.consume(part.count, on: stream)
      streams.connection.flushHTTP2()
    }
    return part
  }
}
