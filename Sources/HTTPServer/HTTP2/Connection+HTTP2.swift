import EventLoop
import HTTP1
import HTTP2

/// A connection that speaks HTTP/2: chosen by ALPN over TLS, by its preface in clear (RFC 9113 §3.2, §3.3).
///
/// Unlike HTTP/1.1, nothing here needs a task: the session says what is to be done with what has come, and the socket's
/// readiness for either direction is watched at once.
extension Connection {
  /// Deals with what has come, if the connection speaks HTTP/2; false if it does not.
  func serveHTTP2() throws(CloseReason) -> Bool {
    guard http2 != nil || worker.speaksHTTP2 else { return false }
    if http2 == nil {
      switch startsWithPreface() {
      case false?: return false
      case nil:
        headDeadline = headDeadline ?? now.advanced(by: worker.limits.headerSection)
        rest()
        return true
      case true?:
        headDeadline = nil
        do { http2 = try HTTP2Connection(self) } catch { throw .gone }
        if worker.stage == .closing { http2?.announceEnd(after: drainGrace) }
      }
    }
    guard let http2 else { return false }
    isServing = true
    let bytes = input
    let goesOn = http2.receive(bytes.span.extracting(consumed...))
    consumed = input.count
    isServing = false
    try drive(http2, goesOn: goesOn)
    return true
  }

  /// Whether HTTP/2 begins; nil if more bytes have to tell.
  private func startsWithPreface() -> Bool? {
    let preface = HTTP2Connection.preface
    let count = min(input.count - consumed, preface.count)
    guard !hasCarriedRequest, count > 0 else { return false }
    guard input[consumed..<consumed + count].elementsEqual(preface[..<count]) else { return false }
    return count == preface.count ? true : nil
  }

  /// Sends what the session has to say, from outside of the connection's own turn.
  func flushHTTP2() {
    guard !isServing, let http2, channel.raw >= 0 else { return }
    channel.unwatch()
    borrowBuffers()
    do throws(CloseReason) {
      try drive(http2, goesOn: true)
    } catch {
      close()
    }
  }

  /// Sends, and waits for whatever comes next.
  private func drive(_ http2: HTTP2Connection, goesOn: Bool) throws(CloseReason) {
    isServing = true
    defer { isServing = false }
    // What the socket has not taken goes first.
    var isFlushed = try transmitAtOnce()
    var rounds = 0
    while isFlushed, http2.session.wantsWrite, rounds < Self.roundsInOneGo {
      http2.collect(into: &output, limit: worker.limits.sendBuffer)
      isFlushed = try flushAtOnce()
      rounds += 1
    }
    let isDone = http2.session.isOver || !goesOn
    if peerHasFinished || (isDone && isFlushed) { return close() }
    releaseBuffers()
    guard account() else { return turnAway() }
    isResting = true
    let isPending = !isFlushed || http2.session.wantsWrite
    channel.watch(
      for: isPending ? [.read, .write] : .read, until: deadline(of: http2, isPending: isPending), self)
  }

  /// How often the socket is filled before the others of its loop have a turn.
  private static let roundsInOneGo = 16

  private func deadline(of http2: HTTP2Connection, isPending: Bool) -> Deadline {
    let limit = isPending ? worker.limits.writeProgress : http2.isIdle ? worker.limits.idle : worker.limits.body
    return min(now.advanced(by: limit), http2.goAwayDeadline)
  }

  /// Asks the client to open no more streams. Those that it has opened before it hears of that are still served: the
  /// GOAWAY that names the last one follows when they have had the time to arrive (RFC 9113 §6.8).
  func announceEnd(of http2: HTTP2Connection) {
    http2.announceEnd(after: drainGrace)
    flushHTTP2()
  }

  /// Lets the streams that are open end, and takes no others.
  func sendGoAway() {
    http2?.sendGoAway()
    flushHTTP2()
  }
}
