import Dispatch
import TestSupport
import Testing

@testable import EventLoop

@Suite("Loop lag")
struct LoopLagTests {
  private static func at(_ milliseconds: UInt64) -> Deadline {
    Deadline(nanoseconds: 1_000_000_000_000 + milliseconds * 1_000_000)
  }

  @Test("is the length of the longest turn")
  func turns() {
    var lag = LoopLag()
    lag.add(from: Self.at(0), to: Self.at(2), due: .never)
    lag.add(from: Self.at(10), to: Self.at(40), due: .never)
    lag.add(from: Self.at(50), to: Self.at(51), due: .never)
    let reading = lag.reading(at: Self.at(60), turnBegan: nil)
    #expect(reading.longest == .milliseconds(30))
    #expect(reading.busy == .milliseconds(33))
    #expect(reading.lateTurns == 0)
  }

  @Test("is the delay of a turn that begins after the deadline that the loop waited for")
  func due() {
    var lag = LoopLag()
    lag.add(from: Self.at(500), to: Self.at(501), due: Self.at(300))
    let reading = lag.reading(at: Self.at(501), turnBegan: nil)
    #expect(reading.longest == .milliseconds(200))
    #expect(reading.busy == .milliseconds(1))
    #expect(reading.lateTurns == 1)
  }

  @Test("includes the turn in progress, without counting it twice")
  func inProgress() {
    var lag = LoopLag()
    #expect(lag.reading(at: Self.at(250), turnBegan: Self.at(0)).longest == .milliseconds(250))
    lag.add(from: Self.at(0), to: Self.at(300), due: .never)
    let reading = lag.reading(at: Self.at(301), turnBegan: nil)
    #expect(reading.busy == .milliseconds(300))
    #expect(reading.lateTurns == 1)
  }

  @Test("a longest delay is reported for one to two minutes, even if the loop rests", arguments: [false, true])
  func forgets(_ rests: Bool) {
    var lag = LoopLag()
    lag.add(from: Self.at(0), to: Self.at(700), due: .never)
    #expect(lag.reading(at: Self.at(60_000), turnBegan: nil).longest == .milliseconds(700))
    if !rests { lag.add(from: Self.at(61_000), to: Self.at(61_005), due: .never) }
    #expect(lag.reading(at: Self.at(61_006), turnBegan: nil).longest == .milliseconds(700))
    #expect(lag.reading(at: Self.at(122_000), turnBegan: nil).longest == .milliseconds(rests ? 0 : 5))
    #expect(lag.reading(at: Self.at(122_000), turnBegan: nil).lateTurns == 1)
  }

  @Test("another thread sees that a loop is blocked, and afterwards that it was", arguments: IOLoop.PollerKind.allCases)
  func blocked(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    loop.loop.performAndWait {}
    #expect(loop.loop.lag.lateTurns == 0)
    let gate = DispatchSemaphore(value: 0)
    loop.loop.post { gate.wait() }
    wait(for: "the loop to be late") { loop.loop.lag.longest > LoopLag.tolerance }
    let during = loop.loop.lag
    #expect(during.lateTurns == 1)
    gate.signal()
    loop.loop.performAndWait {}
    loop.loop.performAndWait {}
    let after = loop.loop.lag
    #expect(after.longest >= during.longest)
    #expect(after.busy >= during.busy)
    #expect(after.lateTurns == 1)
  }

  @Test(
    "a crowd of ready descriptors is a backlog, until there is no crowd", arguments: IOLoop.PollerKind.allCases,
    [Rank.first, .second, .last])
  func backlog(_ kind: IOLoop.PollerKind, _ rank: Rank) throws {
    let loop = try IOLoop.forTest(kind)
    let pairs = try (0..<100).map { _ in try Pair(on: loop) }
    let backlogs = Notes<Duration>()
    let delegate = Restless(backlogs)
    for pair in pairs { pair.poke() }
    loop.loop.performAndWait {
      for pair in pairs {
        pair.channel.rank = rank
        pair.channel.watch(until: .never, delegate)
      }
    }
    wait(for: "a backlog") { backlogs.all.contains { $0 > .zero } }
    loop.loop.performAndWait { delegate.isDone = true }
    wait(for: "the end of the backlog") { (try? loop.get { loop.loop.backlog }) == .zero }
  }

  /// Watches channels whose byte it never reads, so they are always ready.
  private final class Restless: ChannelDelegate, @unchecked Sendable {
    // Sendable by confinement to the loop, except the notes.
    var isDone = false
    private let backlogs: Notes<Duration>

    init(_ backlogs: Notes<Duration>) { self.backlogs = backlogs }

    func channel(_ channel: Channel, became readiness: Readiness) {
      guard readiness == .ready, !isDone else { return }
      if backlogs.all.count < 1000 { backlogs.add(channel.loop.backlog) }
      channel.watch(until: .never, self)
    }
  }
}
