import Glibc
import TestSupport
import Testing

/// The aims of quota control, on a simulated clock. `QUOTA_SEEDS=100` runs 100 seeds of each case, 4500 runs or more.
@Suite("A greedy and a modest client under a quota", .serialized)
struct QuotaSimulationTests {
  static let seeds = unsafe getenv("QUOTA_SEEDS").flatMap { unsafe Int(String(cString: $0)) }
  private static let quotas = [2.0, 5, 20, 100, 300]

  /// As many scenarios for every latency as the environment specifies, or one.
  private static func scenarios(_ quota: Double, _ limiter: QuotaScenario.Limiter) -> [QuotaScenario] {
    var random = SplitMix(seed: UInt64(quota) &* 31 &+ UInt64(limiter.rawValue.utf8.count))
    let latencies = [0.015, 0.1, 0.4]
    let chosen = seeds == nil ? [latencies.randomElement(using: &random) ?? 0.1] : latencies
    return chosen.flatMap { latency in
      (0..<(seeds ?? 1)).map { _ in
        var scenario = QuotaScenario()
        (scenario.quota, scenario.limiter, scenario.latency) = (quota, limiter, latency)
        scenario.greedy = (seeds == nil ? [1, 10, 50] : [1, 3, 10, 50, 200, 2000]).randomElement(using: &random) ?? 1
        scenario.modesty = .random(in: 0.05...0.5, using: &random)
        scenario.seconds = QuotaSimulation.warmUp + (quota < 20 ? 300 : seeds == nil && quota > 20 ? 20 : 60)
        scenario.seed = random.next()
        return scenario
      }
    }
  }

  @Test(
    "the quota is used, few requests are refused, and the modest client is served", arguments: quotas,
    QuotaScenario.Limiter.allCases)
  func steady(quota: Double, limiter: QuotaScenario.Limiter) {
    for scenario in Self.scenarios(quota, limiter) {
      var simulation = QuotaSimulation(scenario)
      let report = simulation.run()
      let comment = Comment("\(scenario)")
      #expect(report.used >= min(0.9, 0.95 * scenario.demand), comment)
      #expect(report.refusedPart <= 0.02, comment)
      expectModestIsServed(report, scenario)
    }
  }

  @Test(
    "with Retry-After in whole seconds, the modest client has no failure", arguments: quotas,
    QuotaScenario.Limiter.allCases)
  func retryAfter(quota: Double, limiter: QuotaScenario.Limiter) {
    for var scenario in Self.scenarios(quota, limiter) {
      scenario.retryAfter = true
      var simulation = QuotaSimulation(scenario)
      let report = simulation.run()
      let comment = Comment("\(scenario)")
      #expect(report.used >= min(0.88, 0.95 * scenario.demand), comment)
      #expect(report.refusedPart <= 0.02, comment)
      expectModestIsServed(report, scenario)
    }
  }

  @Test(
    "a quota that is counted over a minute is used, few requests are refused, and the modest client has no failure",
    arguments: QuotaScenario.Limiter.allCases, [false, true])
  func minute(limiter: QuotaScenario.Limiter, retryAfter: Bool) {
    var scenario = QuotaScenario()
    (scenario.quota, scenario.limiter, scenario.retryAfter) = (10, limiter, retryAfter)
    (scenario.window, scenario.greedy, scenario.seconds) = (60, 30, 900)
    var simulation = QuotaSimulation(scenario)
    let report = simulation.run()
    #expect(report.used >= 0.9)
    #expect(report.refusedPart <= 0.02)
    #expect(report.modestFailed == 0)
  }

  private func expectModestIsServed(_ report: QuotaSimulation.Report, _ scenario: QuotaScenario) {
    var alone = scenario
    alone.greedy = 0
    var simulation = QuotaSimulation(alone)
    let aloneReport = simulation.run()
    let most =
      3 * aloneReport.percentile(0.99, of: aloneReport.modestTimes) + 2 / scenario.quota
      + (scenario.retryAfter ? 1 : 0)
    let comment = Comment("\(scenario)")
    #expect(report.modestFailed == 0, comment)
    #expect(report.percentile(0.99, of: report.modestTimes) <= most, comment)
  }

  @Test("a doubled quota is used in time and stays in use", arguments: quotas, QuotaScenario.Limiter.allCases)
  func recovery(quota: Double, limiter: QuotaScenario.Limiter) {
    for var scenario in Self.scenarios(quota, limiter) where scenario.demand > 2 {
      scenario.doublesAt = 45 + Double(scenario.seed % 10)
      scenario.seconds = quota < 20 ? 240 : Self.seeds == nil ? 75 : 110
      var simulation = QuotaSimulation(scenario)
      let report = simulation.run()
      let comment = Comment("\(scenario)")
      #expect(report.recovery ?? .infinity <= scenario.recovery, comment)
      #expect(report.usedAfterwards >= 0.85, comment)
    }
  }

  @Test(
    "a quota that falls to a third is used, and few requests are refused", arguments: [20.0, 100],
    QuotaScenario.Limiter.allCases)
  func fall(quota: Double, limiter: QuotaScenario.Limiter) {
    for var scenario in Self.scenarios(quota, limiter) where scenario.demand > 1 {
      (scenario.fallsAt, scenario.seconds) = (20, 100)
      var simulation = QuotaSimulation(scenario)
      let report = simulation.run()
      #expect(report.used >= 0.9 / 3, "\(scenario)")
      #expect(report.refusedPart <= 0.04, "\(scenario)")
    }
  }

  @Test(
    "after the greedy client leaves, the modest client is served without delay", arguments: quotas,
    QuotaScenario.Limiter.allCases)
  func leaving(quota: Double, limiter: QuotaScenario.Limiter) {
    for var scenario in Self.scenarios(quota, limiter) {
      scenario.leavesAt = 20
      scenario.seconds = quota < 20 ? 240 : 60
      var simulation = QuotaSimulation(scenario)
      let report = simulation.run()
      let comment = Comment("\(scenario)")
      #expect(report.modestFailed == 0, comment)
      #expect(report.percentile(0.99, of: report.modestTimesAfterwards) <= 3 * (scenario.latency + 0.02), comment)
    }
  }
}

extension QuotaScenario {
  /// The requests of both clients, as a fraction of the quota.
  fileprivate var demand: Double { (0.85 * Double(greedy) / (latency + 0.006) + quota / 2 * modesty) / quota }
}
