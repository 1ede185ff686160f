import EventLoop
import HTTP1
import HTTP2

/// A connection that speaks HTTP/2: chosen by ALPN over TLS, or by its preface in plaintext (RFC 9113 §3.2, §3.3).
///
/// Unlike HTTP/1.1, nothing here needs a task: the session determines how to process received bytes, and the socket is
/// watched for reading and writing at the same time.
extension Connection {
  /// Processes the received bytes if the connection speaks HTTP/2. Returns false if it does not.
  func serveHTTP2() throws(CloseReason) -> Bool {
    channel.loop.assertCurrent()
    guard http2 != nil || worker.speaksHTTP2 else { return false }
    if http2 == nil {
      switch startsWithPreface() {
      case false?: return false
      case nil:
        state.prefaceBegan(at: now)
        rest()
        return true
      case true?:
        let connection: HTTP2Connection
        do { connection = try HTTP2Connection(self) } catch { throw .gone }
        http2 = connection
        if case .announceGoAway = state.upgraded(at: now, grace: grace) { connection.announceGoAway() }
      }
    }
    guard let http2 else { return false }
    http2.isServing = true
    let bytes = transport.input
    let goesOn = http2.receive(bytes.span.extracting(transport.consumed...))
    transport.dropInput()
    http2.isServing = false
    try drive(http2, goesOn: goesOn)
    return true
  }

  /// Returns whether HTTP/2 begins, or nil if more bytes are needed to decide.
  private func startsWithPreface() -> Bool? {
    let preface = HTTP2Connection.preface
    let count = min(transport.unread, preface.count)
    guard !state.hasCarriedRequest, count > 0 else { return false }
    let start = transport.consumed
    guard transport.input[start..<start + count].elementsEqual(preface[..<count]) else { return false }
    return count == preface.count ? true : nil
  }

  /// Sends the session's output outside of the connection's own turn.
  func flushHTTP2() {
    channel.loop.assertCurrent()
    guard let http2, !http2.isServing, channel.raw >= 0 else { return }
    channel.unwatch()
    transport.borrowBuffers()
    do throws(CloseReason) {
      try drive(http2, goesOn: true)
    } catch {
      close()
    }
  }

  /// Sends output, and waits for the next event.
  private func drive(_ http2: HTTP2Connection, goesOn: Bool) throws(CloseReason) {
    http2.isServing = true
    defer { http2.isServing = false }
    // Bytes that the socket has not accepted yet go first.
    var isFlushed = try transport.transmitAtOnce()
    var rounds = 0
    while isFlushed, http2.session.wantsWrite, rounds < Self.roundsInOneGo {
      http2.collect(into: &transport.output, limit: worker.limits.sendBuffer)
      isFlushed = try transport.flushAtOnce()
      rounds += 1
    }
    let isDone = http2.session.isOver || !goesOn
    if transport.peerHasFinished || (isDone && isFlushed) { return close() }
    transport.releaseBuffers()
    guard account() else { return turnAway() }
    let isPending = !isFlushed || http2.session.wantsWrite
    channel.watch(
      for: isPending ? [.read, .write] : .read,
      until: state.restOfHTTP2(at: now, isPending: isPending, isIdle: http2.isIdle), self)
  }

  /// The maximum number of writes that fill the socket before the loop's other connections have a turn.
  private static let roundsInOneGo = 16
}
