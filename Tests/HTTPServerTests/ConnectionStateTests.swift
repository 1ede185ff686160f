import EventLoop
import HTTP1
import Testing

@testable import HTTPServer

/// A connection's deadlines and decisions, without a socket and without a clock.
@Suite struct ConnectionStateTests {
  private static let limits: ServerLimits = {
    var limits = ServerLimits()
    limits.tlsHandshake = .seconds(10)
    limits.headerSection = .seconds(11)
    limits.bodyProgress = .seconds(30)
    limits.body = .seconds(120)
    limits.writeProgress = .seconds(31)
    limits.work = .seconds(121)
    limits.cancelledWork = .seconds(12)
    limits.idle = .seconds(75)
    limits.linger = .seconds(2)
    limits.lingerBytes = 1000
    limits.unreadBody = 100
    return limits
  }()

  /// A connection that has just been accepted, without TLS.
  private var state = ConnectionState(limits: SharedLimits(limits))

  /// The time `seconds` after the connection was accepted.
  private func at(_ seconds: Int) -> Deadline { Deadline(nanoseconds: UInt64(seconds) * 1_000_000_000) }

  private static func exchange(
    clientKeepsAlive: Bool = true, unreadContent: MessageFraming = .none, expectsContinue: Bool = false,
    bufferedBytes: Int = 0, readWouldBlock: Bool = true, peerHasFinished: Bool = false
  ) -> ConnectionState.KeepAlive {
    ConnectionState.KeepAlive(
      clientKeepsAlive: clientKeepsAlive, unreadContent: unreadContent, expectsContinue: expectsContinue,
      bufferedBytes: bufferedBytes, readWouldBlock: readWouldBlock, peerHasFinished: peerHasFinished)
  }

  // MARK: At rest

  @Test("an idle connection closes at its deadline, which bytes without a request do not move")
  mutating func idle() {
    #expect(state.rest(at: at(0), grace: nil) == at(75))
    #expect(state.woke(.ready, at: at(50)) == .read)
    #expect(state.rest(at: at(50), grace: nil) == at(75))
    #expect(state.woke(.timedOut, at: at(75)) == .close)
  }

  @Test("a request gives the connection a new idle deadline")
  mutating func idleAfterRequest() {
    _ = state.rest(at: at(0), grace: nil)
    #expect(state.woke(.ready, at: at(50)) == .read)
    state.headBegan(at: at(50))
    state.headCompleted()
    #expect(state.responded(to: Self.exchange(), goesOn: true) == nil)
    #expect(state.rest(at: at(50), grace: nil) == at(125))
  }

  @Test("a header section has one deadline, and then gets 408")
  mutating func head() {
    state.headBegan(at: at(5))
    for second in 5..<16 {
      #expect(state.rest(at: at(second), grace: nil) == at(16))
      #expect(state.woke(.ready, at: at(second)) == .read)
    }
    #expect(state.rest(at: at(15), grace: nil) == at(16))
    #expect(state.keepsRequest)
    #expect(state.woke(.timedOut, at: at(16)) == .end(.refused(.headTimeout)))
  }

  @Test("parts of HTTP/2's preface do not move the deadline of the head")
  mutating func preface() {
    state.prefaceBegan(at: at(5))
    state.prefaceBegan(at: at(9))
    #expect(state.rest(at: at(9), grace: nil) == at(16))
  }

  @Test("the PROXY header and the TLS handshake share one deadline")
  mutating func handshake() {
    state.opened(at: at(0), awaitsProxyHeader: true, isSecure: true)
    #expect(state.awaitsProxyHeader)
    #expect(state.rest(at: at(0), grace: nil) == at(10))
    var late = state
    #expect(late.woke(.timedOut, at: at(10)) == .refuseProxyHeader)
    #expect(state.woke(.ready, at: at(9)) == .read)
    state.proxyHeaderCompleted()
    #expect(!state.awaitsProxyHeader)
    #expect(state.phase == .handshake(until: at(10)))
    #expect(state.rest(at: at(9), grace: nil) == at(10))
    late = state
    #expect(late.woke(.timedOut, at: at(10)) == .expireHandshake)
    #expect(state.woke(.cancelled, at: at(9)) == .close)
    let isFirst = state.handshakeCompleted(at: at(9), isClosing: false)
    #expect(isFirst)
    let isAgain = state.handshakeCompleted(at: at(9), isClosing: false)
    #expect(!isAgain)
    #expect(state.rest(at: at(9), grace: nil) == at(84))
  }

  // MARK: Content

  @Test("content has a deadline for progress and a deadline for the whole")
  mutating func slowContent() {
    state.headBegan(at: at(0))
    state.headCompleted()
    state.contentBegan(at: at(0), isForResponse: true)
    #expect(state.rest(at: at(0), grace: nil) == at(30))
    for second in stride(from: 20, through: 100, by: 20) {
      #expect(state.woke(.ready, at: at(second)) == .read)
      state.contentContinues(at: at(second))
      #expect(state.rest(at: at(second), grace: nil) == at(min(second + 30, 120)))
    }
    #expect(state.keepsRequest)
    #expect(state.woke(.timedOut, at: at(120)) == .end(.refused(.bodyTimeout)))
  }

  @Test("late unread content ends the connection without another response")
  mutating func unreadContent() {
    state.headCompleted()
    state.contentBegan(at: at(0), isForResponse: false)
    _ = state.rest(at: at(0), grace: nil)
    var late = state
    #expect(late.woke(.timedOut, at: at(30)) == .end(.finished(lingers: true)))
    #expect(state.woke(.cancelled, at: at(1)) == .end(.finished(lingers: true)))
    state.contentCompleted()
    #expect(state.phase == .idle(until: nil))
  }

  @Test("complete content leaves the request without a response")
  mutating func completeContent() {
    state.headCompleted()
    state.contentBegan(at: at(0), isForResponse: true)
    state.contentCompleted()
    #expect(state.phase == .exchange)
    #expect(state.reason(for: .overMemory) == .refused(.overMemory))
  }

  // MARK: Keep-alive

  struct KeepAliveRow: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let exchange: ConnectionState.KeepAlive
    let goesOn: Bool
    let whileDraining: Bool

    init(_ label: String, _ exchange: ConnectionState.KeepAlive, _ goesOn: Bool, draining whileDraining: Bool) {
      (testDescription, self.exchange, self.goesOn, self.whileDraining) = (label, exchange, goesOn, whileDraining)
    }
  }

  static let keepAliveRows = [
    KeepAliveRow("a request alone", exchange(), true, draining: false),
    KeepAliveRow("the client closes", exchange(clientKeepsAlive: false, bufferedBytes: 9), false, draining: false),
    KeepAliveRow("a pipelined request", exchange(bufferedBytes: 1), true, draining: true),
    KeepAliveRow("more in the socket", exchange(readWouldBlock: false), true, draining: true),
    KeepAliveRow("unread content", exchange(unreadContent: .fixed(100)), true, draining: false),
    KeepAliveRow(
      "unread content, all of it buffered", exchange(unreadContent: .fixed(100), bufferedBytes: 100), true,
      draining: false),
    KeepAliveRow(
      "a request behind unread content", exchange(unreadContent: .fixed(100), bufferedBytes: 101), true, draining: true),
    KeepAliveRow(
      "unread content, more in the socket", exchange(unreadContent: .fixed(100), readWouldBlock: false), true,
      draining: false),
    KeepAliveRow("too much unread content", exchange(unreadContent: .fixed(101)), false, draining: false),
    KeepAliveRow("unread chunks", exchange(unreadContent: .chunked), false, draining: false),
    KeepAliveRow(
      "unread content behind 100", exchange(unreadContent: .fixed(5), expectsContinue: true), false, draining: false),
    KeepAliveRow("the peer has finished", exchange(peerHasFinished: true), false, draining: false),
    KeepAliveRow(
      "the peer has finished behind a pipelined request", exchange(bufferedBytes: 1, peerHasFinished: true), true,
      draining: true),
    KeepAliveRow(
      "the peer has finished within content",
      exchange(unreadContent: .fixed(5), bufferedBytes: 1, peerHasFinished: true), false, draining: false),
  ]

  @Test("a connection stays open after a response only if another request can follow", arguments: keepAliveRows)
  func keepAlive(_ row: KeepAliveRow) {
    #expect(state.goesOn(after: row.exchange, isDraining: false) == row.goesOn)
    #expect(state.goesOn(after: row.exchange, isDraining: true) == row.whileDraining)
  }

  @Test("the server lingers after its last response only if the client may still be sending")
  mutating func end() {
    state.headCompleted()
    #expect(state.responded(to: Self.exchange(unreadContent: .fixed(5)), goesOn: true) == nil)
    #expect(state.responded(to: Self.exchange(), goesOn: false) == .finished(lingers: true))
    let closing = Self.exchange(clientKeepsAlive: false)
    #expect(state.responded(to: closing, goesOn: false) == .finished(lingers: false))
    for exchange in [
      Self.exchange(clientKeepsAlive: false, unreadContent: .fixed(1)),
      Self.exchange(clientKeepsAlive: false, bufferedBytes: 1),
    ] {
      #expect(state.responded(to: exchange, goesOn: false) == .finished(lingers: true))
    }
  }

  // MARK: Drain

  @Test("an idle connection stays open for the grace period, but not beyond its own deadline")
  mutating func drainWhileIdle() {
    _ = state.rest(at: at(0), grace: nil)
    var early = state
    #expect(early.drainBegan(at: at(10), grace: .seconds(1)) == .wait(until: at(11)))
    #expect(early.woke(.timedOut, at: at(11)) == .close)
    #expect(state.drainBegan(at: at(74), grace: .seconds(5)) == .wait(until: at(75)))
  }

  @Test("a drain does not change the deadline of a head, content or handshake")
  mutating func drainWhileBusy() {
    var phases = [state]
    phases[0].opened(at: at(0), awaitsProxyHeader: false, isSecure: true)
    state.headBegan(at: at(0))
    phases.append(state)
    state.headCompleted()
    state.contentBegan(at: at(0), isForResponse: true)
    phases.append(state)
    for var phase in phases {
      let deadline = phase.rest(at: at(0), grace: nil)
      #expect(phase.drainBegan(at: at(1), grace: .seconds(1)) == .nothing)
      #expect(phase.rest(at: at(1), grace: .seconds(1)) == deadline)
    }
    // An idle connection whose bytes are being read.
    var busy = ConnectionState(limits: SharedLimits(Self.limits))
    _ = busy.rest(at: at(0), grace: nil)
    #expect(busy.woke(.ready, at: at(1)) == .read)
    #expect(busy.drainBegan(at: at(1), grace: .seconds(1)) == .nothing)
  }

  @Test("a closing server gives a connection the grace period after a request, and a head's time after a handshake")
  mutating func restWhileClosing() {
    state.headCompleted()
    _ = state.responded(to: Self.exchange(bufferedBytes: 1), goesOn: true)
    #expect(state.rest(at: at(5), grace: .seconds(1)) == at(6))
    var secure = ConnectionState(limits: SharedLimits(Self.limits))
    secure.opened(at: at(0), awaitsProxyHeader: false, isSecure: true)
    _ = secure.handshakeCompleted(at: at(5), isClosing: true)
    #expect(secure.rest(at: at(5), grace: .seconds(1)) == at(16))
  }

  @Test("after the drain's timeout, an incomplete head or content gets 503")
  mutating func abandoned() {
    state.headBegan(at: at(0))
    _ = state.rest(at: at(0), grace: nil)
    #expect(state.woke(.cancelled, at: at(1)) == .end(.refused(.draining)))
    state.headCompleted()
    state.contentBegan(at: at(1), isForResponse: true)
    _ = state.rest(at: at(1), grace: nil)
    #expect(state.woke(.cancelled, at: at(2)) == .end(.refused(.draining)))
  }

  // MARK: Work

  @Test("bytes during work wait, and the peer's end of input cancels the work")
  mutating func halfClose() {
    state.headCompleted()
    state.workBegan()
    #expect(state.watchBegan(at: at(0)) == .wait(until: at(121)))
    #expect(state.woke(.ready, at: at(1)) == .lookForEnd)
    #expect(state.peerActed(isEnd: false, at: at(1)) == .watchForHangup(until: at(122)))
    #expect(state.watchesHangup)
    #expect(state.woke(.ready, at: at(2)) == .cancelWork(until: at(14)))
    #expect(state.interruption == .gone)
    // A handler that does not end in time loses its connection.
    #expect(state.woke(.timedOut, at: at(14)) == .close)
    state.phase = .closed
    #expect(state.woke(.cancelled, at: at(14)) == .nothing)
  }

  @Test("work that exceeds its time or the drain's timeout is cancelled and refused")
  mutating func cancelledWork() {
    state.workBegan()
    _ = state.watchBegan(at: at(0))
    var late = state
    #expect(late.woke(.timedOut, at: at(121)) == .cancelWork(until: at(133)))
    #expect(late.interruption == .refused(.workTimeout))
    #expect(state.woke(.cancelled, at: at(1)) == .cancelWork(until: at(13)))
    #expect(state.interruption == .refused(.draining))
    // The next part of a stream does not change the interruption.
    #expect(state.watchBegan(at: at(2)) == .cancelWork(until: at(14)))
    state.workEnded()
    #expect(!state.isWorking)
  }

  @Test("work may delay the requests up to the second rest after it, over HTTP/2 only those after the first")
  mutating func delay() {
    state.partAwaited()
    #expect(!state.workMayDelay)
    for isHTTP2 in [false, true] {
      if isHTTP2 {
        state.upgraded(at: at(0), grace: nil)
      }
      state.workBegan()
      #expect(state.workMayDelay == !isHTTP2)
      for isDelayed in [true, false] {
        _ = isHTTP2 ? state.restOfHTTP2(until: at(9)) : state.rest(at: at(0), grace: nil)
        #expect(state.woke(.ready, at: at(1)) == .read)
        #expect(state.workMayDelay == isDelayed)
      }
    }
  }

  // MARK: The end

  @Test("a lingering connection discards a limited number of bytes for a limited time")
  mutating func linger() {
    state.lingerBegan(at: at(0))
    let isUnderLimit = state.discarded(999, at: at(1))
    #expect(isUnderLimit)
    #expect(state.rest(at: at(1), grace: nil) == at(2))
    #expect(state.woke(.ready, at: at(1)) == .discardInput)
    var late = state
    let isInTime = late.discarded(0, at: at(2))
    #expect(!isInTime)
    let isOverLimit = !state.discarded(1, at: at(1))
    #expect(isOverLimit)
    _ = late.rest(at: at(1), grace: nil)
    #expect(late.woke(.timedOut, at: at(2)) == .closeWhenRead)
    #expect(!late.takesRefusal)
  }

  @Test("a peer that does not read has the deadline of a write")
  mutating func unread() {
    #expect(state.writeDeadline(at: at(3)) == at(34))
    #expect(state.unreadBegan(at: at(3)) == at(34))
    #expect(state.isUnread)
  }

  // MARK: HTTP/2

  @Test("HTTP/2 has its own deadlines, see HTTP2DeadlinesTests")
  mutating func http2() {
    state.upgraded(at: at(0), grace: nil)
    #expect(state.restOfHTTP2(until: at(31)) == at(31))
    #expect(state.woke(.timedOut, at: at(31)) == .checkHTTP2)
  }

  @Test("a drain announces GOAWAY once, and names the last stream after the grace period")
  mutating func goAway() {
    state.upgraded(at: at(0), grace: nil)
    _ = state.restOfHTTP2(until: at(75))
    #expect(state.drainBegan(at: at(1), grace: .seconds(1)) == .announceGoAway)
    #expect(state.drainBegan(at: at(1), grace: .seconds(1)) == .nothing)
    #expect(state.restOfHTTP2(until: at(75)) == at(2))
    #expect(state.woke(.timedOut, at: at(2)) == .sendGoAway)
    let isFirst = state.goAwaySent()
    #expect(isFirst)
    let isAgain = state.goAwaySent()
    #expect(!isAgain)
    #expect(state.drainBegan(at: at(3), grace: .seconds(1)) == .nothing)
    #expect(state.restOfHTTP2(until: at(78)) == at(78))
  }

  @Test("a closing server announces GOAWAY at the start of HTTP/2")
  mutating func goAwayAtOnce() {
    state.upgraded(at: at(0), grace: .seconds(1))
    #expect(state.restOfHTTP2(until: at(75)) == at(1))
  }
}
