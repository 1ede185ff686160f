import Glibc
import TestSupport
import Testing

@testable import CatalogProxy

/// The aims of quota control, on a simulated clock. `QUOTA_SEEDS=1000` runs as many seeds of each case.
@Suite("A greedy and a modest client under a quota", .serialized)
struct QuotaSimulationTests {
  private static let seeds = unsafe getenv("QUOTA_SEEDS").flatMap { unsafe Int(String(cString: $0)) } ?? 1

  private static func scenarios(_ quota: Double, _ limiter: QuotaScenario.Limiter) -> [QuotaScenario] {
    var random = SplitMix(seed: UInt64(quota) &* 31 &+ UInt64(limiter.rawValue.utf8.count))
    return (0..<seeds).map { _ in
      var scenario = QuotaScenario()
      (scenario.quota, scenario.limiter) = (quota, limiter)
      scenario.latency = [0.015, 0.1, 0.4].randomElement(using: &random) ?? 0.1
      scenario.greedy = (seeds > 1 ? [1, 50, 200, 2000] : [1, 50, 200]).randomElement(using: &random) ?? 1
      scenario.modesty = .random(in: 0.05...0.5, using: &random)
      scenario.seconds = QuotaSimulation.warmUp + (quota < 20 ? 300 : quota < 300 ? 60 : 30)
      scenario.seed = random.next()
      return scenario
    }
  }

  @Test(
    "the quota is used, few requests are refused, and the modest client has no failure",
    arguments: [2.0, 5, 20, 100, 300], QuotaScenario.Limiter.allCases)
  func steady(quota: Double, limiter: QuotaScenario.Limiter) {
    for scenario in Self.scenarios(quota, limiter) {
      var simulation = QuotaSimulation(scenario)
      let report = simulation.run()
      let comment = Comment("\(scenario)")
      #expect(report.modestFailed == 0, comment)
      #expect(report.used >= min(0.9, scenario.demand) - 0.05, comment)
      // A bucket holds a second's requests when a probe begins: the longer the way, the more are refused at its end.
      #expect(report.refusedPart <= (limiter == .bucket && scenario.latency > 0.3 ? 0.04 : 0.0225), comment)
      let alone = scenario.latency + 0.02
      #expect(report.percentile(0.99) <= 3 * alone + 2 / quota + 0.25, comment)
    }
  }

  @Test(
    "a quota that has doubled is in use within seconds",
    arguments: [20.0, 100, 300], QuotaScenario.Limiter.allCases)
  func recovery(quota: Double, limiter: QuotaScenario.Limiter) {
    for var scenario in Self.scenarios(quota, limiter) where scenario.latency < 0.3 && scenario.greedy > 1 {
      scenario.doublesAt = 45 + Double(scenario.seed % 10)
      scenario.seconds = 90
      guard scenario.demand > 2 else { continue }
      var simulation = QuotaSimulation(scenario)
      let recovery = simulation.run().recovery ?? .infinity
      #expect(recovery <= 15, Comment("\(scenario)"))
    }
  }
}

extension QuotaScenario {
  /// What both clients ask for, as a part of the quota.
  fileprivate var demand: Double { (0.85 * Double(greedy) / (latency + 0.006) + quota / 2 * modesty) / quota }
}
