import Bytes
import TestSupport
import Testing

@testable import UpstreamAdmission

/// The aims after an upstream has refused everything for some time, on a simulated clock.
@Suite("After an upstream has refused every request for some time")
struct RefusalBlockTests {
  private static let latencies = [0.015, 0.1, 0.4]
  /// How long the upstream refuses everything, in seconds.
  private static let lengths = [1.0, 8, 30]
  private static let began = 30.0

  /// Returns the served part of `wanted` requests a second, in five seconds that begin two seconds after the end.
  private static func served(_ scenario: QuotaScenario, for length: Double, of wanted: Double) -> Double {
    var scenario = scenario
    scenario.blocked = began..<began + length
    scenario.seconds = began + length + 8
    var simulation = QuotaSimulation(scenario)
    let report = simulation.run()
    let from = Int((began + length + 2) * 10)
    return Double(report.servedBy[from..<from + 50].reduce(0, +)) / 5 / wanted
  }

  @Test("requests that were never limited are served as before", arguments: [2.0, 20, 200], latencies)
  func unlimited(rate: Double, latency: Double) {
    for length in Self.lengths {
      var scenario = QuotaScenario()
      (scenario.quota, scenario.latency, scenario.greedy) = (100_000, latency, 0)
      scenario.modesty = 2 * rate / scenario.quota
      #expect(Self.served(scenario, for: length, of: rate) >= 0.9, "\(length) s")
    }
  }

  @Test("a known quota is used as before", arguments: [20.0, 100], QuotaScenario.Limiter.allCases)
  func known(quota: Double, limiter: QuotaScenario.Limiter) {
    for latency in Self.latencies {
      for length in Self.lengths where length > 1 {
        var scenario = QuotaScenario()
        (scenario.quota, scenario.limiter, scenario.latency) = (quota, limiter, latency)
        #expect(Self.served(scenario, for: length, of: quota) >= 0.9, "\(length) s, \(latency) s")
      }
    }
  }

  @Test("replicas serve as before", .otherPrograms, arguments: [20, 10_000])
  func replicas(quota: Double) throws {
    for length in Self.lengths {
      var scenario = GroupSimulation.Scenario()
      scenario.quota = quota
      scenario.loads = (0..<3).map { .init(client: "modest", rate: 5, replica: $0) }
      scenario.blocked = Self.began..<Self.began + length
      scenario.seconds = Self.began + length + 8
      var simulation = try GroupSimulation(scenario)
      _ = try simulation.run()
      let from = Self.began + length + 2
      #expect(simulation.used(from: from, to: from + 5, quota: 15) >= 0.9, "\(length) s")
    }
  }

  @Test("meanwhile, one request at a time tests it: at most four a second, then one a second")
  func tests() {
    var pacer = RatePacer()
    for index in 0..<100 { pacer.sent(now: 0.05 * Double(index), isWanted: false) }
    pacer.answered(sentAt: 0, now: 0.1)
    var now = 5.0
    var sent: [Double] = []
    while now < 60 {
      pacer.sent(now: now, isWanted: true)
      pacer.refused(sentAt: now, retryAfter: nil, now: now + 0.05)
      sent.append(now)
      now = max(pacer.opening, now + 0.05)
    }
    #expect(pacer.rate ?? 0 >= 18, "The refusals are no evidence about the rate.")
    #expect(zip(sent, sent.dropFirst()).allSatisfy { $1 - $0 >= 0.25 && $1 - $0 <= 1.2 })
    #expect(sent.count { $0 > 40 } <= 20)
  }

  /// The limit of a replica in a group, 100 ms after the start, when its first request met a 429, and the retry of that.
  private static func paused(
    group: Int, for length: Duration
  ) throws -> (ConcurrencyLimit<Int>, ConcurrencyLimit<Int>.Request) {
    var limit = ConcurrencyLimit<Int>()
    limit.join(group, seed: 1, now: .zero)
    var request = ConcurrencyLimit<Int>.Request(QuotaCaller(client: "a", identity: "a"))
    guard case .granted(let permit) = limit.acquire(request, waiter: 0, now: .zero) else {
      throw TestFailure("The first request must wait.")
    }
    _ = limit.release(permit, .limited(retryAfter: length), now: .milliseconds(100))
    request.isRetry = true
    return (limit, request)
  }

  @Test("a replica that leaves its group just after a first 429 still pauses")
  func left() throws {
    var (limit, request) = try Self.paused(group: 3, for: .seconds(20))
    #expect(limit.leave(seed: 1, now: .milliseconds(200)).isEmpty)
    guard case .queued = limit.acquire(request, waiter: 1, now: .milliseconds(300)) else {
      throw TestFailure("The retry does not wait.")
    }
    #expect(limit.advance(now: .seconds(19)).isEmpty)
    #expect(limit.advance(now: .seconds(21)).map(\.waiter) == [1])
  }

  @Test("a replica whose group pauses after a first 429 refuses at once what cannot wait as long")
  func pausedGroup() throws {
    var (limit, request) = try Self.paused(group: 1, for: .seconds(30))
    request.patience = .seconds(29)
    guard case .refused(let wait) = limit.acquire(request, waiter: 0, now: .milliseconds(100)) else {
      throw TestFailure("The retry waits for a turn that comes after its deadline.")
    }
    #expect(wait == .seconds(30))
    request.patience = .seconds(31)
    guard case .queued = limit.acquire(request, waiter: 0, now: .milliseconds(100)) else {
      throw TestFailure("The retry does not wait, although it has the time.")
    }
  }

  @Test("a page of eight requests that were all refused once is there soon", arguments: latencies, [0, 0.8])
  func page(latency: Double, length: Double) {
    let caller = QuotaCaller(client: "only", identity: "a")
    var limit = ConcurrencyLimit<Int>()
    var events = EventQueue<ConcurrencyPermit?>()
    func grant(_ permit: ConcurrencyPermit, at time: Double) { events.push(time + latency, permit) }
    for number in 0..<8 {
      let admission = limit.acquire(.init(caller), waiter: number, now: .seconds(100))
      if case .granted(let permit) = admission { grant(permit, at: 100) }
    }
    var (served, end) = (0, 0.0)
    while served < 8, let (now, permit) = events.pop() {
      let time = Duration(inSeconds: now)
      end = now
      // Without a permit, the pacer's time has come.
      guard let permit else {
        for granted in limit.advance(now: time) { grant(granted.permit, at: now) }
        if let opening = limit.opening { events.push(max(opening.inSeconds, now + 0.001), nil) }
        continue
      }
      let isRefused = now <= 100 + latency + length
      let outcome = isRefused ? ConcurrencyOutcome.limited(retryAfter: nil) : .answered
      for granted in limit.release(permit, outcome, now: time) { grant(granted.permit, at: now) }
      if isRefused {
        var request = ConcurrencyLimit<Int>.Request(caller)
        (request.isRetry, request.isRepeated) = (true, true)
        if case .granted(let next) = limit.acquire(request, waiter: 0, now: time) { grant(next, at: now) }
      } else {
        served += 1
      }
      if let opening = limit.opening { events.push(max(opening.inSeconds, now), nil) }
    }
    #expect(served == 8)
    #expect(end - 100 <= 1.6 + 2 * latency, "\(end - 100) s")
  }
}
