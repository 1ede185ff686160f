import Bytes
import HTTP2
import HTTPMessages

/// The content of a request on a stream: what has come, and who waits for more. What is not read counts against the
/// stream's window, so that the client sends no more of it.
final class HTTP2Content: ContentReader, @unchecked Sendable {
  // Sendable by confinement, as the connection is.
  private let stream: HTTP2StreamID
  private let session: HTTP2Session
  private var received: [UInt8] = []
  private var isFinished = false
  private var failure: ContentError?
  private var wake: (() -> Void)?
  /// Told how many bytes were read.
  var wasRead: (Int) -> Void = { _ in }
  /// Lets the window's credit go out.
  var flush: () -> Void = {}

  init(_ stream: HTTP2StreamID, _ session: HTTP2Session) {
    self.stream = stream
    self.session = session
  }

  func append(_ bytes: Span<UInt8>) {
    received.append(copying: bytes)
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

  /// Discards unread bytes. Returns how many.
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
