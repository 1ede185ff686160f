import Testing

@testable import EventLoop

@Suite struct DeadlineTests {
  @Test(
    "a deadline moves by a duration, neither backwards nor past the largest value",
    arguments: [
      (0, Duration.zero, 0), (5, .nanoseconds(1), 6), (5, .seconds(1), 1_000_000_005),
      (5, .milliseconds(1500), 1_500_000_005), (5, .nanoseconds(-1), 5), (5, .seconds(-3), 5),
      (.max - 5, .nanoseconds(4), .max - 1), (.max - 5, .nanoseconds(6), .max), (5, .seconds(Int64.max), .max),
      (.max, .seconds(1), .max), (5, Duration(secondsComponent: 1, attosecondsComponent: 999_999_999), 1_000_000_005),
    ] as [(UInt64, Duration, UInt64)])
  func advancing(start: UInt64, duration: Duration, end: UInt64) {
    #expect(Deadline(nanoseconds: start).advanced(by: duration) == Deadline(nanoseconds: end))
  }

  @Test(
    "the time between two moments is never negative",
    arguments: [(5, 7, 2), (7, 5, 0), (5, 5, 0), (0, .max, .max)] as [(UInt64, UInt64, Int64)])
  func duration(earlier: UInt64, later: UInt64, nanoseconds: Int64) {
    let duration = Deadline(nanoseconds: later).duration(since: Deadline(nanoseconds: earlier))
    #expect(duration == .nanoseconds(nanoseconds))
  }

  @Test("the deadline never is later than every moment")
  func never() {
    #expect(Deadline.now < .never)
    #expect(Deadline.now <= Deadline.now)
  }

  @Test("deadlines expire once each, in order and not early", arguments: IOLoop.PollerKind.allCases)
  func order(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let pairs = try (0..<20).map { _ in try Pair(on: loop) }
    let notes = Notes<Int>()
    let start = Deadline.now
    // Set in an order that is neither theirs nor the reverse; 3 and 20 have no common divisor.
    let delegates = try loop.get {
      (0..<20).map { step in
        let number = step * 3 % 20
        let deadline = start.advanced(by: .milliseconds(5 * number))
        let delegate = Listening { _ in notes.add(Deadline.now >= deadline ? number : -1) }
        pairs[number].channel.watch(until: deadline, delegate)
        return delegate
      }
    }
    #expect(notes.wait(for: 20) == Array(0..<20))
    loop.loop.performAndWait {}
    #expect(delegates.allSatisfy { $0.notes.all == [.timedOut] })
  }

  @Test(
    "a deadline that is moved expires only at its new time", arguments: IOLoop.PollerKind.allCases,
    [(50, 5), (5, 50)])
  func moved(_ kind: IOLoop.PollerKind, times: (first: Int, second: Int)) throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let clock = try Pair(on: loop)
    let old = Listening()
    let new = Listening()
    let last = Listening()
    let start = Deadline.now
    let end = start.advanced(by: .milliseconds(times.second))
    loop.loop.performAndWait {
      pair.channel.watch(until: start.advanced(by: .milliseconds(times.first)), old)
      pair.channel.cancel()
      pair.channel.watch(until: end, new)
      clock.channel.sleep(until: start.advanced(by: .milliseconds(70)), last)
    }
    new.notes.wait(for: 1)
    #expect(Deadline.now >= end)
    last.notes.wait(for: 1)
    #expect(old.notes.all == [.cancelled])
    #expect(new.notes.all == [.timedOut])
  }

  @Test("a deadline in the past ends the wait", arguments: IOLoop.PollerKind.allCases)
  func past(_ kind: IOLoop.PollerKind) async throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let waits = Task(executorPreference: loop.loop) {
      [
        await pair.channel.wait(for: .read, until: Deadline(nanoseconds: 0)),
        await pair.channel.wait(for: [], until: .now),
        await pair.channel.wait(for: .read, until: .now),
      ]
    }
    #expect(await waits.value == [.timedOut, .timedOut, .timedOut])
  }

  @Test(
    "the deadline of a closed channel does not reach the next channel in its slot",
    arguments: IOLoop.PollerKind.allCases)
  func slotReuse(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let first = try Pair(on: loop)
    let heard = Listening()
    loop.loop.performAndWait {
      first.channel.watch(until: Deadline.now.advanced(by: .milliseconds(5)), heard)
      first.channel.close()
    }
    let second = try Pair(on: loop)
    #expect(second.channel.token.index == first.channel.token.index)
    #expect(second.channel.token.generation != first.channel.token.generation)
    let clock = try Pair(on: loop)
    let (quiet, last) = (Listening(), Listening())
    loop.loop.performAndWait {
      second.channel.watch(until: .never, quiet)
      clock.channel.sleep(until: Deadline.now.advanced(by: .milliseconds(20)), last)
    }
    last.notes.wait(for: 1)
    #expect(heard.notes.all == [.cancelled])
    #expect(quiet.notes.all.isEmpty)
  }

  @Test("deadlines of closed channels do not accumulate", arguments: IOLoop.PollerKind.allCases)
  func pile(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let kept = try Pair(on: loop)
    let (heard, other) = (Listening(), Listening())
    loop.loop.performAndWait {
      kept.channel.watch(until: Deadline.now.advanced(by: .milliseconds(200)), heard)
    }
    for _ in 0..<1000 {
      let pair = try Pair(on: loop)
      loop.loop.performAndWait {
        pair.channel.watch(until: Deadline.now.advanced(by: .seconds(75)), other)
        pair.channel.close()
      }
    }
    #expect(try loop.get { loop.loop.timerCount } < 200)
    #expect(heard.notes.wait(for: 1) == [.timedOut])
  }
}
