import Bytes
import TestSupport

@testable import UpstreamAdmission

/// Replicas before an upstream with a quota, on a simulated clock. Between them is a real `redis-server`, which runs the real
/// script with the time of the simulation.
struct GroupSimulation {
  /// What sends requests. A client with connections sends the next request when one has been served; one with a rate
  /// sends at that rate.
  struct Load {
    var client = "greedy"
    var share = QuotaCaller.usualShare
    /// The connections to each replica.
    var connections: [Int] = []
    /// Requests a second, and the replica that gets them.
    var rate = 0.0
    var replica = 0
    var from = 0.0
  }

  struct Scenario {
    var limiter = QuotaScenario.Limiter.bucket
    var quota = 20.0
    var latency = 0.1
    var replicas = 3
    var loads: [Load] = []
    var seconds = 60.0
    var warmUp = 15.0
    var retryAfter = false
    /// The part of commands to the store whose reply is late or lost.
    var lost = 0.0
    /// The times at which the store is gone.
    var outage: Range<Double>?
    /// When the first replica dies.
    var firstDies: Double?
    /// When the store begins again without its data.
    var emptied: Double?
    /// When a replica comes that has learned a tenth of the rate alone.
    var misled: Double?
    /// The seconds in which the upstream counts.
    var window = 1.0
    var doublesAt: Double?
    /// When the quota falls to a third.
    var fallsAt: Double?
    /// When the upstream refuses every request.
    var blocked: Range<Double>?
    /// When the store's clock is set, and by how much.
    var jump: (at: Double, by: Double)?
    var initial = 200
    var seed: UInt64 = 1
  }

  struct Report {
    var sent = 0
    var refused = 0
    var served = 0
    var servedBy: [String: Int] = [:]
    var failed: [String: Int] = [:]
    var times: [String: [Double]] = [:]
    /// Requests served in each second, and of each replica.
    var servedIn: [Int] = []
    var servedAt: [Int] = []
    /// The times at which requests were sent, and the times of 429s at the replicas.
    var sentTimes: [(time: Double, replica: Int)] = []
    var refusalTimes: [Double] = []
    var mostInFlight = 0
    /// The most requests in flight at once in each tenth of a second.
    var commands = 0
    var refusedPart: Double { Double(refused) / Double(max(sent, 1)) }
    func percentile(_ p: Double, of client: String) -> Double {
      let sorted = (times[client] ?? []).sorted()
      return sorted.isEmpty ? 0 : sorted[min(Int(Double(sorted.count) * p), sorted.count - 1)]
    }
  }

  private enum Event {
    case ask(Int)
    case arrive(Int, ConcurrencyPermit)
    case response(Int, ConcurrencyPermit, Double?)
    case rated(Int)
    case tick(Int)
    case expire(Int)
    case settle(Int, isRegular: Bool)
    case settling(Int, QuotaReport, serial: Int, isLost: Bool, sentAt: Double)
    case settled(Int, QuotaStore.Reply?, QuotaReport, serial: Int, sentAt: Double)
    case message(Int)
  }
  private struct Ask {
    var load: Int
    var replica: Int
    var began: Double
    var attempts = 0
    var ticket: QueueTicket?
    var isRetry = false
  }
  private struct Replica {
    var limit: ConcurrencyLimit<Int>
    var id: UInt64
    /// What its clock shows at time zero.
    var offset: Double
    var tickAt: Double?
    var isAlive = true
    var isTogether = false
    /// Since when no settlement had a reply.
    var missedSince: Double?
  }

  let scenario: Scenario
  private var random: SplitMix
  private var events = EventQueue<Event>()
  private var quota: SimulatedQuota
  private let store: QuotaStore
  private var replicas: [Replica] = []
  private var asks: [Ask] = []
  private(set) var now = 0.0
  private var inFlight = 0
  /// The settlements without a reply, and the number of the last one.
  private var open: Set<Int> = []
  private var lastSerial = 0
  private(set) var report = Report()
  /// The store's clock at time zero.
  private static let storeOffset = 1.7e9
  private static let whole = 30.0

  init(_ scenario: Scenario) throws {
    self.scenario = scenario
    store = try QuotaStore()
    random = SplitMix(seed: scenario.seed)
    quota = SimulatedQuota(scenario.limiter, scenario.quota, window: scenario.window)
    report.servedIn = [Int](repeating: 0, count: Int(scenario.seconds) + 60)
    report.servedAt = [Int](repeating: 0, count: scenario.replicas)
    var limits = ConcurrencyLimits()
    limits.initial = scenario.initial
    for _ in 0..<scenario.replicas {
      let id = random.next()
      replicas.append(
        Replica(
          limit: ConcurrencyLimit(limits), id: id,
          offset: Double(random.next() % 100_000)))
    }
  }

  mutating func run() throws -> Report {
    for index in replicas.indices { push(uniform(0, 0.1), .settle(index, isRegular: true)) }
    for (index, load) in scenario.loads.enumerated() {
      for (replica, connections) in load.connections.enumerated() {
        for _ in 0..<connections { ask(index, at: replica, from: load.from + 0.5 + uniform(0, 0.01)) }
      }
      if load.rate > 0 { push(load.from + 0.5 + uniform(0, 1 / load.rate), .rated(index)) }
    }
    var (doubled, hasFallen, killed, emptied, misled) = (false, false, false, false, false)
    while let entry = events.pop(), entry.time < scenario.seconds {
      now = entry.time
      if let at = scenario.doublesAt, now >= at, !doubled {
        doubled = true
        quota.quota *= 2
      }
      if let at = scenario.fallsAt, now >= at, !hasFallen {
        hasFallen = true
        quota.quota /= 3
      }
      if let at = scenario.firstDies, now >= at, !killed {
        killed = true
        die(0)
      }
      if let at = scenario.emptied, now >= at, !emptied {
        emptied = true
        try store.empty()
      }
      if let at = scenario.misled, now >= at, !misled {
        misled = true
        var report = QuotaReport()
        (report.known, report.hasLearned) = (scenario.quota / 10, true)
        _ = try store.settle(report, of: 0, now: storeTime)
      }
      try handle(entry.event)
    }
    return report
  }

  /// The quota's part that was served from one time to another.
  func used(from: Double, to: Double, quota: Double) -> Double {
    Double(report.servedIn[Int(from)..<Int(to)].reduce(0, +)) / (to.rounded(.down) - from.rounded(.down)) / quota
  }

  /// Its callers go to the next replica.
  private mutating func die(_ index: Int) {
    replicas[index].isAlive = false
    for ask in asks.indices where asks[ask].replica == index && asks[ask].ticket != nil {
      asks[ask].ticket = nil
      fail(ask, retryAfter: 0.1)
    }
  }

  private mutating func handle(_ event: Event) throws {
    switch event {
    case .ask(let index): acquire(index)
    case .rated(let load):
      asks.append(Ask(load: load, replica: scenario.loads[load].replica, began: now))
      acquire(asks.count - 1)
      push(now + uniform(0.5, 1.5) / scenario.loads[load].rate, .rated(load))
    case .tick(let index):
      replicas[index].tickAt = nil
      guard replicas[index].isAlive else { return }
      send(replicas[index].limit.advance(now: local(index)), of: index)
    case .arrive(let index, let permit):
      let refusal = scenario.blocked?.contains(now) == true ? 0 : quota.refusal(at: now)
      push(now + scenario.latency / 2 + jitter(), .response(index, permit, refusal))
    case .response(let index, let permit, let wait): respond(index, permit, wait)
    case .expire(let index):
      let ask = asks[index]
      if let ticket = ask.ticket, replicas[ask.replica].limit.cancel(ticket) != nil { fail(index, retryAfter: 1) }
    case .settle(let index, let isRegular):
      guard replicas[index].isAlive else { return }
      if isRegular { push(now + 0.1 + uniform(0, 0.001), .settle(index, isRegular: true)) }
      settle(index)
    case .settling(let index, let report, let serial, let isLost, let sentAt):
      guard isStoreThere else { return }
      let (reply, isNews) = try store.settle(report, of: replicas[index].id, now: storeTime)
      if isNews {
        for other in replicas.indices where other != index { push(now + hop(), .message(other)) }
      }
      let arrival = now + hop()
      if arrival < sentAt + 0.02, !isLost {
        push(arrival, .settled(index, reply, report, serial: serial, sentAt: sentAt))
      }
    case .settled(let index, let reply, let report, let serial, let sentAt):
      settled(index, reply, report, serial, sentAt)
    case .message(let index):
      guard replicas[index].isAlive, replicas[index].isTogether else { return }
      replicas[index].limit.pauseForRefusal(now: local(index))
      settle(index)
    }
    for index in replicas.indices { look(after: index) }
  }

  // MARK: The store

  private var storeTime: Double {
    now + Self.storeOffset + (scenario.jump.map { now >= $0.at ? $0.by : 0 } ?? 0)
  }

  private var isStoreThere: Bool { scenario.outage.map { !$0.contains(now) } ?? true }
  private mutating func isLost() -> Bool { scenario.lost > 0 && uniform(0, 1) < scenario.lost }

  private mutating func settle(_ index: Int) {
    let report = replicas[index].limit.report(now: local(index))
    self.report.commands += 1
    lastSerial += 1
    open.insert(lastSerial)
    // The store takes the command, but its reply comes too late.
    push(now + hop(), .settling(index, report, serial: lastSerial, isLost: isLost(), sentAt: now))
    push(now + 0.02, .settled(index, nil, report, serial: lastSerial, sentAt: now))
  }

  private mutating func settled(
    _ index: Int, _ reply: QuotaStore.Reply?, _ report: QuotaReport, _ serial: Int, _ sentAt: Double
  ) {
    guard open.remove(serial) != nil, replicas[index].isAlive else { return }
    let time = local(index)
    let replied = local(index, at: (sentAt + now) / 2)
    guard let reply = reply.flatMap({ QuotaReply($0.numbers, parts: $0.parts, now: replied) }) else {
      guard replicas[index].isTogether else { return }
      replicas[index].missedSince = replicas[index].missedSince ?? now
      if now - (replicas[index].missedSince ?? now) >= 1 {
        replicas[index].isTogether = false
        send(replicas[index].limit.leave(seed: replicas[index].id, now: time), of: index)
      } else if report.turns != nil {
        send(replicas[index].limit.missTurns(now: time), of: index)
      }
      return
    }
    replicas[index].missedSince = nil
    if !replicas[index].isTogether {
      replicas[index].isTogether = true
      replicas[index].limit.join(reply.team.replicas, seed: replicas[index].id, now: time)
    }
    send(replicas[index].limit.use(reply, to: report, now: time), of: index)
  }

  // MARK: Requests

  private mutating func ask(_ load: Int, at replica: Int, from time: Double) {
    asks.append(Ask(load: load, replica: replica, began: time))
    push(time, .ask(asks.count - 1))
  }

  private mutating func acquire(_ index: Int) {
    while !replicas[asks[index].replica].isAlive { asks[index].replica = (asks[index].replica + 1) % replicas.count }
    let ask = asks[index]
    let load = scenario.loads[ask.load]
    var request = ConcurrencyLimit<Int>.Request(
      QuotaCaller(client: HashedText(load.client), share: load.share, identity: "caller"))
    request.isRetry = ask.isRetry
    request.patience = .init(inSeconds: ask.began + Self.whole - 1 - now)
    switch replicas[ask.replica].limit.acquire(request, waiter: index, now: local(ask.replica)) {
    case .granted(let permit): go(index, permit)
    case .queued(let ticket):
      asks[index].ticket = ticket
      push(ask.began + Self.whole - 1, .expire(index))
    case .refused(let retryAfter): fail(index, retryAfter: retryAfter.inSeconds)
    }
  }

  private mutating func go(_ index: Int, _ permit: ConcurrencyPermit) {
    asks[index].ticket = nil
    asks[index].attempts += 1
    if now >= scenario.warmUp { report.sent += 1 }
    report.sentTimes.append((now, asks[index].replica))
    inFlight += 1
    report.mostInFlight = max(report.mostInFlight, inFlight)
    push(now + scenario.latency / 2 + jitter(), .arrive(index, permit))
  }

  private mutating func send(_ grants: [ConcurrencyLimit<Int>.Grant], of replica: Int) {
    for grant in grants { go(grant.waiter, grant.permit) }
  }

  private mutating func respond(_ index: Int, _ permit: ConcurrencyPermit, _ wait: Double?) {
    let ask = asks[index]
    let load = scenario.loads[ask.load]
    inFlight -= 1
    if replicas[ask.replica].isAlive {
      let retryAfter: Duration? = scenario.retryAfter ? wait.map { .seconds(Int($0.rounded(.up))) } : nil
      let outcome = wait == nil ? ConcurrencyOutcome.answered : .limited(retryAfter: retryAfter)
      send(replicas[ask.replica].limit.release(permit, outcome, now: local(ask.replica)), of: ask.replica)
    }
    guard wait == nil else {
      report.refusalTimes.append(now)
      if now >= scenario.warmUp { report.refused += 1 }
      guard ask.attempts < 5 else { return fail(index, retryAfter: 1) }
      asks[index].isRetry = true
      return acquire(index)
    }
    report.servedIn[Int(now)] += 1
    if now >= scenario.warmUp {
      report.served += 1
      report.servedBy[load.client, default: 0] += 1
      report.servedAt[ask.replica] += 1
      report.times[load.client, default: []].append(now - ask.began)
    }
    if load.rate == 0 { self.ask(ask.load, at: ask.replica, from: now + 0.001) }
  }

  private mutating func fail(_ index: Int, retryAfter: Double) {
    let load = scenario.loads[asks[index].load]
    asks[index].ticket = nil
    if now >= scenario.warmUp { report.failed[load.client, default: 0] += 1 }
    if load.rate == 0 {
      ask(asks[index].load, at: asks[index].replica, from: now + min(retryAfter, 1) + uniform(0, 0.1))
    }
  }

  /// What the gateway does after every event of a replica: it settles if there is a 429 or a request needs a turn, and sets
  /// its timer.
  private mutating func look(after index: Int) {
    guard replicas[index].isAlive else { return }
    if replicas[index].limit.needsStore(now: local(index)) { settle(index) }
    guard let opening = replicas[index].limit.opening else { return }
    let at = max(opening.inSeconds - replicas[index].offset, now + 0.0005)
    if let tickAt = replicas[index].tickAt, tickAt <= at { return }
    replicas[index].tickAt = at
    push(at + uniform(0.0002, 0.0015), .tick(index))
  }

  // MARK: Time

  private func local(_ index: Int, at time: Double? = nil) -> Duration {
    Duration(inSeconds: replicas[index].offset + (time ?? now))
  }

  /// The time of one way to or from the store: mostly half a millisecond, at times up to 20 ms.
  private mutating func hop() -> Double {
    uniform(0.0002, 0.001) + (random.next() % 100 == 0 ? uniform(0, 0.02) : 0)
  }
  private mutating func jitter() -> Double { uniform(0, 0.003) + (random.next() % 100 == 0 ? uniform(0, 0.02) : 0) }
  private mutating func uniform(_ a: Double, _ b: Double) -> Double { Double.random(in: a...b, using: &random) }

  private mutating func push(_ time: Double, _ event: Event) { events.push(time, event) }
}
