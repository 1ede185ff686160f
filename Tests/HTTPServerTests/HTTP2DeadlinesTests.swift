import EventLoop
import HTTP2
import TestSupport
import Testing

@testable import HTTPServer

/// How long the client of an HTTP/2 connection may take, without a clock.
@Suite("Deadlines of HTTP/2")
struct HTTP2DeadlinesTests {
  private let limits = ServerLimits()
  private let start = Deadline.now

  private func at(_ seconds: Double) -> Deadline { start.advanced(by: .seconds(seconds)) }

  @Test("a connection without streams ends after its idle time, whatever frames arrive")
  func idle() {
    var deadlines = HTTP2Deadlines(at: start)
    for second in stride(from: 0.0, to: 75, by: 5) {
      #expect(deadlines.rest(.init(), at: at(second), limits) == at(75))
      #expect(deadlines.expiry(of: .init(), at: at(second), limits) == .nothing)
    }
    #expect(deadlines.expiry(of: .init(), at: at(75), limits) == .idle)
  }

  @Test("the idle time begins when the last stream ends")
  func idleAfterStream() {
    var deadlines = HTTP2Deadlines(at: start)
    _ = deadlines.rest(.init(hasStreams: true), at: at(70), limits)
    #expect(deadlines.expiry(of: .init(hasStreams: true), at: at(100), limits) == .nothing)
    deadlines.beginIdleTime(at: at(70))
    #expect(deadlines.rest(.init(), at: at(100), limits) == at(145))
  }

  @Test("a wait after the idle time has a moment that is still to come, whatever it is for", arguments: [false, true])
  func afterIdle(isFrame: Bool) {
    var deadlines = HTTP2Deadlines(at: start)
    let waits =
      isFrame
      ? HTTP2Deadlines.Waits(frame: IncompleteFrame(number: 1, isContent: false)) : HTTP2Deadlines.Waits(accepted: 1)
    _ = deadlines.rest(waits, at: at(70), limits)
    #expect(deadlines.expiry(of: waits, at: at(75), limits) == .idle)
    deadlines.beginIdleTime(at: at(75))
    #expect(deadlines.rest(waits, at: at(75), limits) > at(75))
    #expect(deadlines.expiry(of: waits, at: at(75), limits) == .nothing)
    #expect(deadlines.expiry(of: waits, at: at(100), limits) == (isFrame ? .frame : .writing))
  }

  @Test("a frame has as long as a header section, and DATA as long as a part of content", arguments: [false, true])
  func frame(isContent: Bool) {
    var deadlines = HTTP2Deadlines(at: start)
    let waits = HTTP2Deadlines.Waits(hasStreams: true, frame: IncompleteFrame(number: 1, isContent: isContent))
    let limit: Double = isContent ? 30 : 10
    for second in stride(from: 0.0, to: limit, by: 1) {
      #expect(deadlines.rest(waits, at: at(second), limits) <= at(second + 2.5))
      #expect(deadlines.expiry(of: waits, at: at(second), limits) == .nothing)
    }
    #expect(deadlines.expiry(of: waits, at: at(limit), limits) == .frame)
    let next = HTTP2Deadlines.Waits(hasStreams: true, frame: IncompleteFrame(number: 2, isContent: isContent))
    _ = deadlines.rest(next, at: at(limit), limits)
    #expect(deadlines.expiry(of: next, at: at(limit + 1), limits) == .nothing)
  }

  @Test("a client that reads nothing has 30 s, whatever it sends")
  func writing() {
    var deadlines = HTTP2Deadlines(at: start)
    for second in 0..<30 {
      let waits = HTTP2Deadlines.Waits(
        hasStreams: true, frame: IncompleteFrame(number: second, isContent: false), accepted: 100)
      _ = deadlines.rest(waits, at: at(Double(second)), limits)
      #expect(deadlines.expiry(of: waits, at: at(Double(second)), limits) == .nothing)
    }
    #expect(deadlines.expiry(of: .init(hasStreams: true, accepted: 100), at: at(30), limits) == .writing)
    _ = deadlines.rest(.init(hasStreams: true, accepted: 101), at: at(30), limits)
    #expect(deadlines.expiry(of: .init(hasStreams: true, accepted: 101), at: at(59), limits) == .nothing)
  }

  @Test("content has to make progress, unless it waits for its reader, and to be complete in 120 s")
  func content() {
    var stalled = StreamDeadlines(at: start)
    var waits = StreamDeadlines.Waits(isReceiving: true, wantsContent: true)
    #expect(stalled.look(at: waits, at: at(29), limits) == .nothing)
    waits.received = 1
    #expect(stalled.look(at: waits, at: at(30), limits) == .nothing)
    #expect(stalled.look(at: waits, at: at(59), limits) == .nothing)
    #expect(stalled.look(at: waits, at: at(60), limits) == .content)

    var unread = StreamDeadlines(at: start)
    waits.wantsContent = false
    #expect(unread.look(at: waits, at: at(119), limits) == .nothing)
    #expect(unread.look(at: waits, at: at(120), limits) == .content)
  }

  @Test("a client has 30 s to read something of a response, or to give a window for it")
  func reader() {
    var stream = StreamDeadlines(at: start)
    #expect(stream.look(at: .init(isSending: true, sent: 5), at: at(50), limits) == .nothing)
    #expect(stream.look(at: .init(isSending: true, sent: 5), at: at(79), limits) == .nothing)
    #expect(stream.look(at: .init(isSending: true, sent: 6), at: at(79.5), limits) == .nothing)
    #expect(stream.look(at: .init(isSending: true, sent: 6), at: at(110), limits) == .reader)
  }

  @Test("a handler has 120 s for a response, and for each part of it")
  func work() {
    var stream = StreamDeadlines(at: start)
    #expect(stream.look(at: .init(isWorking: true), at: at(0), limits) == .nothing)
    #expect(stream.look(at: .init(isWorking: true), at: at(119), limits) == .nothing)
    #expect(stream.look(at: .init(sent: 1, isWorking: true), at: at(119), limits) == .nothing)
    #expect(stream.look(at: .init(sent: 1, isWorking: true), at: at(238), limits) == .nothing)
    #expect(stream.look(at: .init(sent: 1, isWorking: true), at: at(239), limits) == .work)
  }
}
