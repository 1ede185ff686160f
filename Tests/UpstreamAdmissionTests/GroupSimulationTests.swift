import TestSupport
import Testing

@testable import UpstreamAdmission

/// The aims of quota control for several replicas, on a simulated clock.
@Suite("Replicas that share a quota", .serialized, .otherPrograms)
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

  private static func run(_ scenario: GroupSimulation.Scenario) throws -> (GroupSimulation.Report, used: Double) {
    var simulation = try GroupSimulation(scenario)
    let report = try simulation.run()
    return (report, simulation.used(from: scenario.warmUp, to: scenario.seconds - 1, quota: scenario.quota))
  }

  @Test(
    "use it, and few requests are refused",
    arguments: [2.0, 20, 100, 300], [QuotaScenario.Limiter.fixedWindow, .slidingWindow])
  func steady(quota: Double, limiter: QuotaScenario.Limiter) throws {
    var scenario = Self.scenario(quota, limiter)
    if quota > 100 { scenario.loads = [Load(connections: [40, 40, 40])] }
    scenario.seconds = quota < 20 ? 150 : quota > 100 ? 21 : quota > 20 ? 25 : 35
    let (report, used) = try Self.run(scenario)
    #expect(used >= 0.9)
    // One more, because a short run at a low rate has few requests.
    let most = limiter == .slidingWindow ? 0.03 : 0.02
    #expect(Double(report.refused) <= most * Double(report.sent) + 1)
    let served = Double(report.served)
    for count in report.servedAt { #expect(abs(Double(count) / served - 1 / 3) < 0.05) }
  }

  @Test("learn that the upstream counts for a minute")
  func minute() throws {
    let loads = [Load(connections: [3, 3, 3]), Load(client: "modest", rate: 1, replica: 1)]
    var scenario = Self.scenario(5, .fixedWindow, loads)
    (scenario.window, scenario.warmUp, scenario.seconds) = (60, 200, 440)
    let (report, used) = try Self.run(scenario)
    #expect(used >= 0.9)
    #expect(report.refusedPart <= 0.02)
    #expect(report.failed["modest", default: 0] == 0)
  }

  @Test("leave a rate that is far too low within ten seconds", arguments: [20.0, 100])
  func misled(quota: Double) throws {
    var scenario = Self.scenario(quota, .fixedWindow, [Load(connections: [40, 40, 40])])
    (scenario.misled, scenario.seconds) = (15, 30)
    var simulation = try GroupSimulation(scenario)
    _ = try simulation.run()
    #expect(simulation.used(from: 16, to: 18, quota: quota) < 0.9)
    #expect(simulation.used(from: 25, to: 29, quota: quota) >= 0.85)
  }

  @Test("divide it by demand")
  func demand() throws {
    let quota = 20.0
    let (report, used) = try Self.run(Self.scenario(quota, .bucket, [Load(connections: [60, 20, 20])]))
    #expect(used >= 0.9)
    // The part by demand is 60 %.
    #expect((0.45...0.65).contains(Double(report.servedAt[0]) / Double(report.served)))
  }

  @Test("serve a client at another replica than the one that asks for everything", arguments: [5.0, 100])
  func modest(quota: Double) throws {
    let loads = [Load(connections: [100, 0, 0]), Load(client: "modest", rate: quota * 0.2, replica: 1)]
    let (report, used) = try Self.run(Self.scenario(quota, .bucket, loads))
    #expect(report.failed["modest", default: 0] == 0)
    #expect(report.percentile(0.99, of: "modest") <= 1 + 4 / quota)
    #expect(used >= 0.9)
  }

  @Test("keep a client within its share, at however many replicas it asks")
  func share() throws {
    let loads = [
      Load(client: "a quarter", share: 0.25, connections: [50, 50, 50]),
      Load(client: "the rest", connections: [20, 20, 20]),
    ]
    let (report, used) = try Self.run(Self.scenario(100, .bucket, loads))
    #expect(used >= 0.9)
    #expect((0.2...0.27).contains(Double(report.servedBy["a quarter", default: 0]) / Double(report.served)))
  }

  @Test("pause together after a 429 that one of them sees", arguments: QuotaScenario.Limiter.allCases)
  func pause(limiter: QuotaScenario.Limiter) throws {
    var scenario = Self.scenario(20, limiter)
    scenario.seconds = 5
    var simulation = try GroupSimulation(scenario)
    let report = try simulation.run()
    // All replicas know of it 45 ms later at the latest, and the first pause is half a second long.
    let first = report.refusalTimes[0]
    let sent = report.sentTimes.filter { $0.time > first + 0.045 && $0.time < first + 0.4 }
    #expect(sent.isEmpty)
    #expect(Set(report.sentTimes.filter { $0.time < first }.map(\.replica)).count == 3)
  }

  @Test("find a doubled quota")
  func recovery() throws {
    let quota = 20.0
    var scenario = Self.scenario(quota)
    (scenario.doublesAt, scenario.seconds) = (30, 70)
    var simulation = try GroupSimulation(scenario)
    _ = try simulation.run()
    #expect(simulation.used(from: 50, to: 69, quota: 2 * quota) >= 0.85)
  }

  @Test(
    "use a quota that has fallen to a third, and few requests are refused",
    arguments: [20.0, 100], [QuotaScenario.Limiter.bucket, .fixedWindow])
  func fall(quota: Double, limiter: QuotaScenario.Limiter) throws {
    var scenario = Self.scenario(quota, limiter)
    (scenario.fallsAt, scenario.warmUp, scenario.seconds) = (20, 30, 70)
    let (report, used) = try Self.run(scenario)
    #expect(used >= 0.9 / 3)
    #expect(report.refusedPart <= 0.04)
  }

  @Test("use the rate as before when the upstream has refused everything for some time", arguments: [20.0, 100])
  func blocked(quota: Double) throws {
    var scenario = Self.scenario(quota)
    (scenario.blocked, scenario.warmUp, scenario.seconds) = (25..<28, 28.5, 38)
    #expect(try Self.run(scenario).0.refused <= 3)
  }

  @Test("have no second burst refused after the first one", arguments: QuotaScenario.Limiter.allCases)
  func first(limiter: QuotaScenario.Limiter) throws {
    var scenario = Self.scenario(100, limiter)
    scenario.seconds = 4
    var simulation = try GroupSimulation(scenario)
    let times = try simulation.run().refusalTimes
    #expect(times.count { (0.4...2.5).contains($0 - times[0]) } <= 3)
  }

  @Test("go on when one dies, and when the store loses its data")
  func losses() throws {
    let quota = 20.0
    var scenario = Self.scenario(quota)
    (scenario.firstDies, scenario.emptied) = (25, 32)
    let (report, used) = try Self.run(scenario)
    #expect(used >= 0.9 && report.refusedPart <= 0.03)
  }

  @Test("keep their parts without the store, and come together again")
  func outage() throws {
    let quota = 20.0
    var scenario = Self.scenario(quota)
    scenario.outage = 20..<30
    let (report, used) = try Self.run(scenario)
    #expect(used >= 0.9 && report.refusedPart <= 0.03)
  }

  @Test("bear replies that are lost")
  func loss() throws {
    let quota = 20.0
    var scenario = Self.scenario(quota)
    scenario.lost = 0.05
    let (report, used) = try Self.run(scenario)
    #expect(used >= 0.9 && report.refusedPart <= 0.04)
  }

  @Test("bear a clock of the store that is set", arguments: [-3600.0, -20, 20, 3600])
  func clock(jump: Double) throws {
    var scenario = Self.scenario(20)
    scenario.jump = (20, jump)
    let (report, used) = try Self.run(scenario)
    #expect(used >= 0.85 && report.refusedPart <= 0.03)
    let served = Double(report.served)
    for count in report.servedAt { #expect(abs(Double(count) / served - 1 / 3) < 0.1) }
  }

  @Test("have no more requests in flight together than one would")
  func inFlight() throws {
    var scenario = Self.scenario(1000, .bucket, [Load(connections: [300, 300, 300])])
    (scenario.latency, scenario.seconds) = (1, 12)
    var simulation = try GroupSimulation(scenario)
    let report = try simulation.run()
    #expect(report.mostInFlight <= ConcurrencyLimits().maximum)
    #expect(report.mostInFlight >= 200)
  }
}
