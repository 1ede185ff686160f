import TestSupport
import Testing

@testable import UpstreamAdmission

/// The aims of quota control for several replicas, on a simulated clock.
@Suite("Replicas that share a quota", .serialized)
struct GroupSimulationTests {
  private typealias Load = GroupSimulation.Load

  private static func scenario(
    _ quota: Double, _ limiter: QuotaScenario.Limiter = .bucket, _ loads: [GroupSimulation.Load]? = nil
  ) -> GroupSimulation.Scenario {
    var scenario = GroupSimulation.Scenario()
    (scenario.quota, scenario.limiter) = (quota, limiter)
    scenario.loads = loads ?? [Load(connections: [20, 20, 20])]
    scenario.seconds = quota < 20 ? 150 : 45
    return scenario
  }

  private static func run(_ scenario: GroupSimulation.Scenario) -> (GroupSimulation.Report, used: Double) {
    var simulation = GroupSimulation(scenario)
    let report = simulation.run()
    return (report, simulation.used(from: scenario.warmUp, to: scenario.seconds - 1, quota: scenario.quota))
  }

  /// A 429 is known to the other replicas 25 ms later, so at a high rate more requests run into a full window.
  @Test("use it, and few requests are refused", arguments: [2.0, 20, 100], QuotaScenario.Limiter.allCases)
  func steady(quota: Double, limiter: QuotaScenario.Limiter) {
    let (report, used) = Self.run(Self.scenario(quota, limiter))
    let isHard = quota == 100 && limiter != .bucket
    #expect(used >= (isHard ? 0.84 : 0.9))
    #expect(report.refusedPart <= (isHard ? 0.06 : 0.025))
    let served = Double(report.served)
    for count in report.servedAt { #expect(abs(Double(count) / served - 1 / 3) < 0.1) }
  }

  @Test("divide it by demand", arguments: [20.0, 100])
  func demand(quota: Double) {
    let (report, used) = Self.run(Self.scenario(quota, .bucket, [Load(connections: [60, 20, 20])]))
    #expect(used >= 0.9)
    // The part by demand is 60 %.
    #expect((0.45...0.65).contains(Double(report.servedAt[0]) / Double(report.served)))
  }

  @Test("serve a client at another replica than the one that asks for everything", arguments: [5.0, 20, 100])
  func modest(quota: Double) {
    let loads = [Load(connections: [100, 0, 0]), Load(client: "modest", rate: quota * 0.2, replica: 1)]
    let (report, used) = Self.run(Self.scenario(quota, .bucket, loads))
    #expect(report.failed["modest", default: 0] == 0)
    #expect(report.percentile(0.99, of: "modest") <= 1 + 4 / quota)
    #expect(used >= 0.9)
  }

  @Test("keep a client within its share, at however many replicas it asks")
  func share() {
    let loads = [
      Load(client: "a quarter", share: 0.25, connections: [50, 50, 50]),
      Load(client: "the rest", connections: [20, 20, 20]),
    ]
    let (report, used) = Self.run(Self.scenario(100, .bucket, loads))
    #expect(used >= 0.9)
    #expect((0.2...0.27).contains(Double(report.servedBy["a quarter", default: 0]) / Double(report.served)))
  }

  @Test("pause together after a 429 that one of them sees", arguments: QuotaScenario.Limiter.allCases)
  func pause(limiter: QuotaScenario.Limiter) {
    var scenario = Self.scenario(20, limiter)
    scenario.seconds = 5
    var simulation = GroupSimulation(scenario)
    let report = simulation.run()
    // All replicas know of it 45 ms later at the latest, and the first pause is half a second long.
    let first = report.refusalTimes[0]
    let sent = report.sentTimes.filter { $0.time > first + 0.045 && $0.time < first + 0.4 }
    #expect(sent.isEmpty)
    #expect(Set(report.sentTimes.filter { $0.time < first }.map(\.replica)).count == 3)
  }

  @Test("find a doubled quota", arguments: [20.0, 100])
  func recovery(quota: Double) {
    var scenario = Self.scenario(quota)
    (scenario.doublesAt, scenario.seconds) = (30, 70)
    var simulation = GroupSimulation(scenario)
    _ = simulation.run()
    #expect(simulation.used(from: 50, to: 69, quota: 2 * quota) >= 0.85)
  }

  @Test("go on when the leader dies", arguments: [20.0, 100])
  func leader(quota: Double) {
    var scenario = Self.scenario(quota)
    scenario.leaderDies = 25
    let (report, used) = Self.run(scenario)
    #expect(used >= 0.9 && report.refusedPart <= 0.03)
  }

  @Test("keep their parts without the store, and come together again", arguments: [20.0, 100])
  func outage(quota: Double) {
    var scenario = Self.scenario(quota)
    scenario.outage = 20..<30
    let (report, used) = Self.run(scenario)
    #expect(used >= 0.9 && report.refusedPart <= 0.03)
  }

  @Test("bear replies that are lost", arguments: [20.0, 100])
  func loss(quota: Double) {
    var scenario = Self.scenario(quota)
    scenario.lost = 0.05
    let (report, used) = Self.run(scenario)
    #expect(used >= 0.9 && report.refusedPart <= 0.04)
  }

  @Test("bear a clock of the store that is set", arguments: [-3600.0, -20, 20, 3600])
  func clock(jump: Double) {
    var scenario = Self.scenario(20)
    scenario.jump = (20, jump)
    let (report, used) = Self.run(scenario)
    #expect(used >= 0.85 && report.refusedPart <= 0.03)
    let served = Double(report.served)
    for count in report.servedAt { #expect(abs(Double(count) / served - 1 / 3) < 0.1) }
  }

  @Test("have no more requests in flight together than one would")
  func inFlight() {
    var scenario = Self.scenario(1000, .bucket, [Load(connections: [300, 300, 300])])
    (scenario.latency, scenario.seconds) = (1, 12)
    var simulation = GroupSimulation(scenario)
    let report = simulation.run()
    #expect(report.mostInFlight <= ConcurrencyLimits().maximum)
    #expect(report.mostInFlight >= 200)
  }
}
