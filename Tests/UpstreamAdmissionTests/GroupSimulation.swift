import Bytes
import TestSupport

@testable import UpstreamAdmission

/// Replicas before an upstream with a quota, with a store between them, on a simulated clock.
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
    /// When the leader dies.
    var leaderDies: Double?
    var doublesAt: Double?
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
    case settling(Int, QuotaMember.Settlement, sentAt: Double)
    case settled(Int, QuotaMember.Reply?, replicas: Int, sentAt: Double)
    case message(Int, [UInt8])
    case leasing(Int, TurnRequest, sentAt: Double)
    case leased(Int, (count: Int64, start: Int64, interval: Int64)?)
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
    var member: QuotaMember
    var id: UInt64
    /// What its clock shows at time zero.
    var offset: Double
    var tickAt: Double?
    var isAlive = true
    var isTogether = false
    /// Since when no settlement had a reply.
    var missedSince: Double?
    var count = 1
  }

  let scenario: Scenario
  private var random: SplitMix
  private var events = EventQueue<Event>()
  private var quota: SimulatedQuota
  private var store = SimulatedStore()
  private var replicas: [Replica] = []
  private var asks: [Ask] = []
  private(set) var now = 0.0
  private var inFlight = 0
  private(set) var report = Report()
  /// The store's clock at time zero.
  private static let storeOffset = 1.7e9
  private static let whole = 30.0

  init(_ scenario: Scenario) {
    self.scenario = scenario
    random = SplitMix(seed: scenario.seed)
    quota = SimulatedQuota(scenario.limiter, scenario.quota)
    report.servedIn = [Int](repeating: 0, count: Int(scenario.seconds) + 60)
    report.servedAt = [Int](repeating: 0, count: scenario.replicas)
    var limits = ConcurrencyLimits()
    limits.initial = scenario.initial
    for _ in 0..<scenario.replicas {
      let id = random.next()
      replicas.append(
        Replica(
          limit: ConcurrencyLimit(limits), member: QuotaMember(id: id, limits), id: id,
          offset: Double(random.next() % 100_000)))
    }
  }

  var limits: [ConcurrencyLimit<Int>] { replicas.map(\.limit) }
  var leaders: [Int] { replicas.indices.filter { replicas[$0].isAlive && replicas[$0].member.isLeading } }

  mutating func run() -> Report {
    for index in replicas.indices { push(uniform(0, 0.1), .settle(index, isRegular: true)) }
    for (index, load) in scenario.loads.enumerated() {
      for (replica, connections) in load.connections.enumerated() {
        for _ in 0..<connections { ask(index, at: replica, from: load.from + 0.5 + uniform(0, 0.01)) }
      }
      if load.rate > 0 { push(load.from + 0.5 + uniform(0, 1 / load.rate), .rated(index)) }
    }
    var doubled = false
    var killed = false
    while let entry = events.pop(), entry.time < scenario.seconds {
      now = entry.time
      if let at = scenario.doublesAt, now >= at, !doubled {
        doubled = true
        quota.quota *= 2
      }
      if let at = scenario.leaderDies, now >= at, !killed, let leader = leaders.first {
        killed = true
        die(leader)
      }
      handle(entry.event)
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

  private mutating func handle(_ event: Event) {
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
    case .settling(let index, let settlement, let sentAt):
      guard isStoreThere else { return }
      let (reply, messages, count) = store.settle(settlement, of: replicas[index].id, now: storeTime)
      for message in messages {
        for other in replicas.indices where other != index { push(now + hop(), .message(other, message)) }
      }
      let arrival = now + hop()
      if arrival < sentAt + 0.02 { push(arrival, .settled(index, reply, replicas: count, sentAt: sentAt)) }
    case .settled(let index, let reply, let count, let sentAt): settled(index, reply, count, sentAt)
    case .message(let index, let message):
      guard replicas[index].isAlive, replicas[index].isTogether else { return }
      apply(replicas[index].member.received(message[...], now: local(index)), to: index)
    case .leasing(let index, let request, let sentAt):
      guard isStoreThere, let turns = store.lease(request, now: storeTime) else { return }
      let arrival = now + hop()
      if arrival < sentAt + 0.02 { push(arrival, .leased(index, turns)) }
    case .leased(let index, let turns):
      guard replicas[index].isAlive, replicas[index].limit.pacing.group?.isAsking == true else { return }
      let lease = turns.flatMap {
        replicas[index].member.lease(count: $0.count, start: $0.start, interval: $0.interval)
      }
      send(replicas[index].limit.take(lease, now: local(index)), of: index)
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
    let time = local(index)
    let report = replicas[index].limit.report(now: time) ?? QuotaReport()
    let settlement = replicas[index].member.settlement(report, now: time)
    apply(QuotaMember.Effects(team: replicas[index].isTogether ? replicas[index].member.team : nil), to: index)
    self.report.commands += 1
    // A lost command is one whose reply comes too late.
    if !isLost() { push(now + hop(), .settling(index, settlement, sentAt: now)) }
    push(now + 0.02, .settled(index, nil, replicas: 0, sentAt: now))
    replicasWaiting[index] = now
  }

  private var replicasWaiting: [Int: Double] = [:]

  private mutating func settled(_ index: Int, _ reply: QuotaMember.Reply?, _ count: Int, _ sentAt: Double) {
    guard replicas[index].isAlive, replicasWaiting[index] == sentAt else { return }
    replicasWaiting[index] = nil
    let time = local(index)
    guard let reply else {
      guard replicas[index].isTogether else { return }
      replicas[index].missedSince = replicas[index].missedSince ?? now
      guard now - (replicas[index].missedSince ?? now) >= 1 else { return }
      replicas[index].isTogether = false
      replicas[index].member.left()
      return send(replicas[index].limit.leave(replicas[index].count, seed: replicas[index].id, now: time), of: index)
    }
    replicas[index].missedSince = nil
    let effects = replicas[index].member.settled(reply, sentAt: local(index, at: sentAt), now: time)
    replicas[index].limit.reported(at: local(index, at: sentAt))
    replicas[index].count = count
    replicas[index].member.changed(replicas: count)
    if !replicas[index].isTogether {
      replicas[index].isTogether = true
      replicas[index].limit.join(count, seed: replicas[index].id, now: time)
    }
    apply(effects, to: index)
  }

  private mutating func apply(_ effects: QuotaMember.Effects, to index: Int) {
    if let team = effects.team {
      let limit = replicas[index].member.limit
      send(replicas[index].limit.use(team, limit: limit, now: local(index)), of: index)
    }
    if effects.settlesNow { push(now, .settle(index, isRegular: false)) }
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
      QuotaCaller(client: load.client, share: load.share, rateLimitPrefix: "caller"))
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

  /// What the gateway does after every event of a replica: it reports 429s, asks for turns, and sets its timer.
  private mutating func look(after index: Int) {
    guard replicas[index].isAlive else { return }
    if replicas[index].limit.isUrgent { settle(index) }
    if let request = replicas[index].limit.turnRequest(now: local(index)) {
      report.commands += 1
      if !isLost() { push(now + hop(), .leasing(index, request, sentAt: now)) }
      push(now + 0.02, .leased(index, nil))
    }
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
