import Bytes
import TestSupport

@testable import UpstreamAdmission

/// A server with a greedy and a modest client before an upstream with a quota, on a simulated clock.
struct QuotaSimulation {
  struct Report {
    var sent = 0
    var refused = 0
    var served = 0
    var modestAsked = 0
    var modestFailed = 0
    var modestTimes: [Double] = []
    var greedyTurnedAway = 0
    /// Requests served in each tenth of a second.
    var servedBy: [Int] = []
    var used = 0.0
    /// Seconds until a doubled quota is used, and the fraction of the quota used from then on.
    var recovery: Double?
    var usedAfterwards = 0.0
    /// The modest client's times from `recovery` seconds after the greedy client left.
    var modestTimesAfterwards: [Double] = []
    var refusedPart: Double { Double(refused) / Double(max(sent, 1)) }
    func percentile(_ p: Double, of times: [Double]) -> Double {
      let sorted = times.sorted()
      return sorted.isEmpty ? 0 : sorted[min(Int(Double(sorted.count) * p), sorted.count - 1)]
    }
  }

  private enum Event {
    case ask(Int)  // request index
    case arrive(Int, permit: ConcurrencyPermit)
    case response(Int, permit: ConcurrencyPermit, Double?, Bool)
    case modest
    case tick
    case expire(Int)
  }
  private struct Ask {
    var isModest: Bool
    var began: Double
    var attempts = 0
    var ticket: QueueTicket?
    var isRetry = false
  }

  let scenario: QuotaScenario
  private var random: SplitMix
  private var events = EventQueue<Event>()
  private(set) var limit = ConcurrencyLimit<Int>()
  private var quota: SimulatedQuota
  private var asks: [Ask] = []
  private var tickAt: Double?
  private var now = 0.0
  private var hasLeft = false
  private(set) var report = Report()
  /// The time that does not count, in seconds: the pacer must see a long window end twice.
  private var warmUp: Double {
    scenario.fallsAt.map { $0 + Self.warmUp } ?? (scenario.window > 1 ? 300 : Self.warmUp)
  }
  static let warmUp = 10.0
  static let whole = 30.0
  /// With less time left, a request that has its turn is not sent.
  static let least = 1.0

  init(_ scenario: QuotaScenario) {
    self.scenario = scenario
    random = SplitMix(seed: scenario.seed)
    quota = SimulatedQuota(scenario.limiter, scenario.quota, window: scenario.window)
    report.servedBy = [Int](repeating: 0, count: Int(scenario.seconds * 10) + 400)
  }

  mutating func run() -> Report {
    for _ in 0..<scenario.greedy { ask(isModest: false, at: uniform(0, 0.01)) }
    push(uniform(0, 1), .modest)
    var (doubled, hasFallen) = (false, false)
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
      if let at = scenario.leavesAt, now >= at, !hasLeft { leave() }
      handle(entry.event)
    }
    summarize()
    return report
  }

  /// Removes the greedy client and its waiting requests.
  private mutating func leave() {
    hasLeft = true
    for index in asks.indices where !asks[index].isModest {
      if let ticket = asks[index].ticket { _ = limit.cancel(ticket) }
      asks[index].ticket = nil
    }
  }

  private mutating func summarize() {
    let end = scenario.doublesAt ?? scenario.seconds
    let from = Int(warmUp * 10), to = Int(end * 10)
    let served = report.servedBy[from..<to].reduce(0, +)
    report.used = Double(served) / (Double(to - from) / 10) / scenario.quota
    if let at = scenario.doublesAt {
      // The time from which nine tenths of the new quota are served, over a span with enough requests.
      let span = max(Int(10 * 20 / scenario.quota), 10)
      var index = Int(at * 10)
      while index + span < Int(scenario.seconds * 10) {
        let sum = report.servedBy[index..<(index + span)].reduce(0, +)
        if Double(sum) >= 0.9 * 2 * scenario.quota * Double(span) / 10 { break }
        index += 1
      }
      report.recovery = Double(index) / 10 - at
      let rest = report.servedBy[index..<Int(scenario.seconds * 10)]
      report.usedAfterwards = Double(rest.reduce(0, +)) / (Double(rest.count) / 10) / (2 * scenario.quota)
    }
  }

  private mutating func handle(_ event: Event) {
    switch event {
    case .ask(let index): if !hasLeft { acquire(index) }
    case .modest:
      asks.append(Ask(isModest: true, began: now))
      if now >= warmUp, now < scenario.seconds - 5 { report.modestAsked += 1 }
      acquire(asks.count - 1)
      let rate = scenario.quota / 2 * scenario.modesty
      push(now + uniform(0.5, 1.5) / rate, .modest)
    case .tick:
      tickAt = nil
      send(limit.advance(now: .init(inSeconds: now)))
    case .arrive(let index, let permit):
      let refusal = scenario.blocked?.contains(now) == true ? 0 : quota.refusal(at: now)
      push(now + scenario.latency / 2 + jitter(), .response(index, permit: permit, refusal, refusal != nil))
    case .response(let index, let permit, let wait, let isRefused): respond(index, permit, wait, isRefused)
    case .expire(let index):
      if let ticket = asks[index].ticket, limit.cancel(ticket) != nil { fail(index, retryAfter: 1) }
    }
    schedule()
  }

  private mutating func ask(isModest: Bool, at time: Double) {
    asks.append(Ask(isModest: isModest, began: time))
    push(time, .ask(asks.count - 1))
  }

  private mutating func acquire(_ index: Int) {
    let ask = asks[index]
    var request = ConcurrencyLimit<Int>.Request(
      QuotaCaller(
        client: ask.isModest ? "modest" : "greedy", share: QuotaCaller.usualShare, identity: "caller"))
    request.isRetry = ask.isRetry
    let left = ask.began + Self.whole - now
    request.patience = .init(inSeconds: left - Self.least)
    switch limit.acquire(request, waiter: index, now: .init(inSeconds: now)) {
    case .granted(let permit): go(index, permit)
    case .queued(let ticket):
      asks[index].ticket = ticket
      push(ask.began + Self.whole - Self.least, .expire(index))
    case .refused(let retryAfter): fail(index, retryAfter: retryAfter.inSeconds)
    }
  }

  private mutating func fail(_ index: Int, retryAfter: Double) {
    asks[index].ticket = nil
    if asks[index].isModest {
      if asks[index].began >= warmUp { report.modestFailed += 1 }
    } else {
      report.greedyTurnedAway += 1
      ask(isModest: false, at: now + min(retryAfter, 1) + uniform(0, 0.1))
    }
  }

  private mutating func go(_ index: Int, _ permit: ConcurrencyPermit) {
    asks[index].ticket = nil
    asks[index].attempts += 1
    if now >= warmUp { report.sent += 1 }
    push(now + scenario.latency / 2 + jitter(), .arrive(index, permit: permit))
  }

  private mutating func send(_ grants: [ConcurrencyLimit<Int>.Grant]) {
    for grant in grants {
      guard now > asks[grant.waiter].began + Self.whole - Self.least else {
        go(grant.waiter, grant.permit)
        continue
      }
      fail(grant.waiter, retryAfter: 1)
      send(limit.release(grant.permit, .inconclusive, now: .init(inSeconds: now)))
    }
  }

  private mutating func respond(_ index: Int, _ permit: ConcurrencyPermit, _ wait: Double?, _ isRefused: Bool) {
    let retryAfter: Duration? = scenario.retryAfter ? wait.map { .seconds(Int($0.rounded(.up))) } : nil
    send(limit.release(permit, isRefused ? .limited(retryAfter: retryAfter) : .answered, now: .init(inSeconds: now)))
    if isRefused {
      if now >= warmUp { report.refused += 1 }
      guard asks[index].attempts < 5 else { return fail(index, retryAfter: 1) }
      asks[index].isRetry = true
      return hasLeft && !asks[index].isModest ? () : acquire(index)
    }
    report.servedBy[Int(now * 10)] += 1
    if now >= warmUp { report.served += 1 }
    if asks[index].isModest {
      let time = now - asks[index].began
      if asks[index].began >= warmUp { report.modestTimes.append(time) }
      if let at = scenario.leavesAt, asks[index].began > at + scenario.recovery {
        report.modestTimesAfterwards.append(time)
      }
    } else {
      ask(isModest: false, at: now + 0.001)
    }
  }

  private mutating func schedule() {
    guard let opening = limit.opening?.inSeconds else { return }
    let at = max(opening, now + 0.0005)
    if let tickAt, tickAt <= at { return }
    tickAt = at
    // Timers have a resolution of a millisecond, and expire late.
    push(at + uniform(0.0002, 0.0015), .tick)
  }

  private mutating func jitter() -> Double { uniform(0, 0.003) + (random.next() % 100 == 0 ? uniform(0, 0.02) : 0) }
  private mutating func uniform(_ a: Double, _ b: Double) -> Double { Double.random(in: a...b, using: &random) }

  private mutating func push(_ time: Double, _ event: Event) { events.push(time, event) }
}
