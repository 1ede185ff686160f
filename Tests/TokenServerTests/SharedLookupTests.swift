import Testing

@testable import CatalogProxy
@testable import TokenServer

@Suite("A lookup in the shared cache")
struct SharedLookupTests {
  private static let entry: [UInt8] = [1, 2]
  private static func time(_ milliseconds: Int) -> Duration { .milliseconds(milliseconds) }

  /// A lookup that waits until 2 s for another replica, of 10 s.
  private func waiting() -> SharedLookupState {
    var state = SharedLookupState(until: Self.time(10_000))
    #expect(state.replied(.follow(lapsesIn: .seconds(2)), now: .zero) == .wait(until: .seconds(2)))
    return state
  }

  @Test("ends with the store's first reply, unless another replica fetches")
  func replies() {
    let cases: [(SharedLookupState.Reply?, SharedFinding)] = [
      (.entry(Self.entry), .entry(Self.entry, hasWaited: false)), (.lead(stale: nil), .lead(stale: nil)),
      (.lead(stale: Self.entry), .lead(stale: Self.entry)), (nil, .alone(.noReply)),
    ]
    for (reply, finding) in cases {
      var state = SharedLookupState(until: Self.time(1))
      #expect(state.replied(reply, now: .zero) == .done(finding))
      #expect(state.replied(.entry(Self.entry), now: .zero) == .none)
      #expect(state.ended(.stored) == .none && state.passed(now: .seconds(99)) == .none && state.cancel() == .none)
    }
  }

  @Test("asks again when the other fetch has ended with a response or without one")
  func ends() {
    for outcome in [SharedFetchOutcome.stored, .failed] {
      var state = waiting()
      #expect(state.ended(outcome) == .ask)
      #expect(state.replied(.entry(Self.entry), now: .zero) == .done(.entry(Self.entry, hasWaited: true)))
      var next = waiting()
      #expect(next.ended(outcome) == .ask)
      #expect(next.replied(.lead(stale: nil), now: .zero) == .done(.lead(stale: nil)))
    }
  }

  @Test("waits no more if the response is not for sharing")
  func unshared() {
    var state = waiting()
    #expect(state.ended(.unshared) == .done(.alone(.waitedInVain)))
  }

  @Test("heeds a message that overtakes the reply, once")
  func overtaking() {
    var state = SharedLookupState(until: Self.time(10_000))
    #expect(state.ended(.stored) == .none)
    #expect(state.replied(.follow(lapsesIn: .seconds(2)), now: .zero) == .ask)
    #expect(state.replied(.follow(lapsesIn: .seconds(2)), now: .zero) == .wait(until: .seconds(2)))
    var other = SharedLookupState(until: Self.time(10_000))
    #expect(other.ended(.unshared) == .none)
    #expect(other.replied(.follow(lapsesIn: .seconds(2)), now: .zero) == .done(.alone(.waitedInVain)))
  }

  @Test("asks again when the announcement lapses, and not earlier")
  func lapse() {
    var state = waiting()
    #expect(state.passed(now: Self.time(1999)) == .none)
    #expect(state.passed(now: Self.time(2000)) == .ask)
    #expect(state.passed(now: Self.time(2001)) == .none)
  }

  @Test("never waits beyond its end, whatever the store says", arguments: [-1, 0, 100, 2000, 1_000_000])
  func end(_ lapse: Int) {
    var state = SharedLookupState(until: Self.time(10_000))
    var now = Duration.zero
    for _ in 0..<100_000 {
      switch state.replied(.follow(lapsesIn: Self.time(lapse)), now: now) {
      case .wait(let until):
        #expect(until <= now + SharedLookupState.lease && until <= Self.time(10_000))
        // Looks are 100 ms apart.
        now = max(until, now + Self.time(100))
      case let step: return #expect(step == .done(.alone(.waitedInVain)) && now >= Self.time(10_000))
      }
      let step = state.passed(now: now)
      if step == .done(.alone(.waitedInVain)) { return #expect(now <= Self.time(10_100)) }
      #expect(step == .ask)
    }
    Issue.record("It never ends.")
  }

  @Test("does not begin to wait after its end")
  func late() {
    var state = SharedLookupState(until: Self.time(10))
    #expect(state.replied(.follow(lapsesIn: .seconds(2)), now: Self.time(10)) == .done(.alone(.waitedInVain)))
  }

  @Test("ends at once when the caller or the store is gone")
  func cancelled() {
    var state = waiting()
    #expect(state.cancel() == .done(.alone(.noReply)))
    var asking = SharedLookupState(until: Self.time(1))
    #expect(asking.cancel() == .done(.alone(.noReply)))
    #expect(asking.replied(.lead(stale: nil), now: .zero) == .none)
  }
}
