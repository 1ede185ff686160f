import EventLoop
import HTTP1
import HTTP2
import HTTPTypes

/// A connection that speaks HTTP/2: chosen by ALPN over TLS, or by its preface in plaintext (RFC 9113 §3.2, §3.3).
///
/// Unlike HTTP/1.1, nothing here needs a task: the session determines how to process received bytes, and the socket is
/// watched for reading and writing at the same time.
extension Connection {
  /// Processes the received bytes if the connection speaks HTTP/2. Returns false if it does not.
  func serveHTTP2() throws(CloseReason) -> Bool {
    channel.loop.assertCurrent()
    if http2 == nil, worker.http2 == .byPreface {
      switch startsWithPreface() {
      case false?: return false
      case nil:
        state.prefaceBegan(at: now)
        rest()
        return true
      case true?: try beginHTTP2()
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

  /// Begins the session. Without the preface of the client, it ends with an error (RFC 9113 §3.4).
  func beginHTTP2() throws(CloseReason) {
    let connection: HTTP2Connection
    do { connection = try HTTP2Connection(self) } catch { throw .gone }
    http2 = connection
    if case .announceGoAway = state.upgraded(at: now, grace: grace) { connection.announceGoAway() }
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
    http2.noteFailure()
    let isDone = http2.session.isOver || !goesOn
    if transport.peerHasFinished || (isDone && isFlushed) { return close() }
    transport.releaseBuffers()
    guard account() else { return turnAway() }
    let isPending = !isFlushed || http2.session.wantsWrite
    let look = http2.deadlines.rest(waits(of: http2, isPending: isPending), at: now, worker.limits)
    channel.watch(for: isPending ? [.read, .write] : .read, until: state.restOfHTTP2(until: look), self)
  }

  private func waits(of http2: HTTP2Connection, isPending: Bool) -> HTTP2Deadlines.Waits {
    HTTP2Deadlines.Waits(
      hasStreams: !http2.isIdle, frame: http2.session.incompleteFrame, accepted: isPending ? transport.accepted : nil)
  }

  /// Ends what has taken too long: streams, or the connection.
  func checkHTTP2() {
    channel.loop.assertCurrent()
    guard let http2 else { return }
    let isPending = transport.isPending || http2.session.wantsWrite
    switch http2.deadlines.expiry(of: waits(of: http2, isPending: isPending), at: now, worker.limits) {
    case .nothing: http2.lookAtStreams(at: now)
    case .idle: http2.sendGoAway()
    case .frame:
      http2.note(.slowFrame)
      http2.end(.enhanceYourCalm)
    case .writing:
      http2.note(.slowReader)
      return close()
    }
    flushHTTP2()
  }

  /// The maximum number of writes that fill the socket before the loop's other connections have a turn.
  private static let roundsInOneGo = 16
}
