import Bytes
import HTTP2
import HTTPMessages

/// The received content of a request on a stream, and its waiting reader. Unread content counts against the stream's
/// window, so that the client sends no more of it.
final class HTTP2Content: ContentReader, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  private let stream: HTTP2StreamID
  private let session: HTTP2Session
  private var received: [UInt8] = []
  /// Whether all content has arrived.
  private(set) var isFinished = false
  /// The number of bytes that have arrived.
  private(set) var count = 0
  /// Whether no content waits for its reader.
  var isEmpty: Bool { received.isEmpty }
  private var failure: ContentError?
  private var wake: (() -> Void)?
  /// Receives the number of bytes that were read.
  var wasRead: (Int) -> Void = { _ in }
  /// Sends the window's credit to the client.
  var flush: () -> Void = {}

  init(_ stream: HTTP2StreamID, _ session: HTTP2Session) {
    self.stream = stream
    self.session = session
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

  /// Discards unread bytes and returns their number.
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
    wasRead(part.count)
    session.consume(part.count, on: stream)
    flush()
    return part
  }
}
