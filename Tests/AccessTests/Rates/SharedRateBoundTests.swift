import Testing

@testable import Access

@Suite("The rates of several replicas")
struct SharedRateBoundTests {
  typealias Scenario = SharedRateSimulation.Scenario

  static let scenarios: [Scenario] =
    (1...4).flatMap { seed in
      [
        Scenario(seed: seed),
        Scenario(replicas: 9, caller: Rate(perSecond: 10, burst: 30), seed: seed),
        Scenario(replicas: 3, caller: Rate(perSecond: 200, burst: 1), callers: 2, pause: 2_000_000, seed: seed),
        Scenario(replicas: 4, caller: Rate(perSecond: 0.5, burst: 40), hasPauses: false, seed: seed),
        Scenario(
          caller: Rate(perSecond: 20, burst: 10), total: Rate(perSecond: 30, burst: 20), callers: 4, seed: seed),
        Scenario(caller: nil, total: Rate(perSecond: 50, burst: 25), callers: 4, seed: seed),
      ]
    }

  @Test(
    "grant at most the burst, the rate, and what the others granted in 120 ms, in every window of time",
    arguments: scenarios)
  func bound(scenario: Scenario) throws {
    var simulation = try SharedRateSimulation(scenario)
    simulation.run()
    #expect(simulation.refusals > 0)
    let unknown = SharedRateSimulation.interval + SharedRateSimulation.deadline
    if let rate = scenario.caller {
      for caller in 0..<scenario.callers {
        let grants = simulation.grants.filter { $0.caller == caller }
        #expect(SharedRateSimulation.excess(of: grants, over: rate, unknown: unknown).known <= 0)
      }
    }
    if let rate = scenario.total {
      #expect(SharedRateSimulation.excess(of: simulation.grants, over: rate, unknown: unknown).known <= 0)
    }
  }

  @Test("grant nearly all that the rate allows", arguments: scenarios.filter { !$0.hasPauses || $0.total != nil })
  func use(scenario: Scenario) throws {
    var simulation = try SharedRateSimulation(scenario)
    simulation.run()
    let rate = try #require(scenario.total ?? scenario.caller)
    let buckets = scenario.total == nil ? scenario.callers : 1
    let allowed = (rate.perSecond * Double(scenario.duration) / 1e9 + Double(rate.burst)) * Double(buckets)
    #expect(Double(simulation.grants.count) > 0.9 * allowed)
  }

  @Test("count a grant once if the reply of its settlement is lost", arguments: 1...4)
  func lostReplies(seed: UInt64) throws {
    let scenario = Scenario(
      caller: Rate(perSecond: 100, burst: 20), callers: 1, hasPauses: false, lostReplies: 30, seed: seed)
    var simulation = try SharedRateSimulation(scenario)
    simulation.run()
    let allowed = 100.0 * 20 + 20
    #expect(Double(simulation.grants.count) > 0.95 * allowed)
    #expect(Double(simulation.grants.count) < 1.1 * allowed)
  }
}
