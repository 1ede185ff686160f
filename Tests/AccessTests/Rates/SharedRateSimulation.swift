import Cryptography
import TestSupport

@testable import Access

/// Several replicas around a model of the store, in simulated time: callers who hop between the replicas, settlements
/// every 100 ms, and replies and messages that are up to 20 ms late.
struct SharedRateSimulation {
  /// What is tried.
  struct Scenario: CustomStringConvertible {
    var replicas = 3
    var caller: Rate? = Rate(perSecond: 20, burst: 10)
    var total: Rate?
    var callers = 3
    /// The mean of the time between two requests of a caller, in nanoseconds.
    var pause: Int64 = 5_000_000
    /// Whether a caller pauses now and then, so that its bucket fills.
    var hasPauses = true
    /// How many of a hundred replies are lost, though the store has run the script.
    var lostReplies: UInt64 = 0
    var seed: UInt64 = 1
    var duration: Int64 = 20_000_000_000

    var description: String {
      "\(replicas) replicas, caller \(caller.map { "\($0.perSecond)/s" } ?? "-"), "
        + "total \(total.map { "\($0.perSecond)/s" } ?? "-"), lost \(lostReplies), seed \(seed)"
    }
  }

  /// A granted request.
  struct Grant {
    let time: Int64
    let caller: Int
    let replica: Int
  }

  private enum Event {
    case request(caller: Int)
    case settle(replica: Int)
    case runs(RateSettlement, replica: Int, sentAt: Int64)
    case reply([UInt8]?, replica: Int)
    case message([UInt8], replica: Int)
  }

  private let scenario: Scenario
  private let rates: ClientRates
  private let replicas: [RateLimiter]
  /// The beginning of each replica's clock.
  private let clocks: [Int64]
  private var store = StoreModel()
  private var random: SplitMix
  private var queue: [(time: Int64, order: Int, event: Event)] = []
  private var order = 0
  /// The time of the last delivery to each replica: its connection keeps the order.
  private var delivered: [Int64]
  private(set) var grants: [Grant] = []
  private(set) var refusals = 0

  static let interval: Int64 = 100_000_000
  static let deadline: Int64 = 20_000_000

  init(_ scenario: Scenario) throws {
    self.scenario = scenario
    rates = ClientRates(client: "c", perCaller: scenario.caller, total: scenario.total)
    var random = SplitMix(seed: scenario.seed)
    let key = SecretBytes(copying: Array("a secret of the group, 32 bytes.".utf8).span)
    replicas = try (0..<scenario.replicas).map { _ in RateLimiter(try MessageAuthenticator(key: key)) }
    clocks = (0..<scenario.replicas).map { _ in Int64.random(in: 1_000_000_000...1_000_000_000_000_000, using: &random)
    }
    delivered = Array(repeating: 0, count: scenario.replicas)
    self.random = random
  }

  private mutating func after(_ pause: Int64, _ event: Event, from now: Int64) {
    order += 1
    let time = now + pause
    let index = queue.partitioningIndex { ($0.time, $0.order) > (time, order) }
    queue.insert((time, order, event), at: index)
  }

  /// Delivers to a replica within `within`, and not before what was delivered to it earlier.
  private mutating func deliver(_ event: Event, to replica: Int, within: Int64, from now: Int64) {
    delivered[replica] = max(delivered[replica], now + Int64.random(in: 0...within, using: &random))
    after(delivered[replica] - now, event, from: now)
  }

  private func clock(_ replica: Int, _ now: Int64) -> UInt64 { UInt64(clocks[replica] + now) }

  mutating func run() {
    for replica in replicas.indices {
      replicas[replica].changed(isTogether: true, replicas: scenario.replicas, now: clock(replica, 0))
      after(Int64.random(in: 1...Self.interval, using: &random), .settle(replica: replica), from: 0)
    }
    for caller in 0..<scenario.callers { after(1, .request(caller: caller), from: 0) }
    while let next = queue.first, next.time <= scenario.duration {
      queue.removeFirst()
      handle(next.event, at: next.time)
    }
  }

  private mutating func handle(_ event: Event, at now: Int64) {
    switch event {
    case .request(let caller): request(caller, at: now)
    case .settle(let replica):
      after(Self.interval, .settle(replica: replica), from: now)
      guard let settlement = replicas[replica].settlement(now: clock(replica, now)) else { return }
      let delay = Int64.random(in: 0...Self.deadline / 2, using: &random)
      after(delay, .runs(settlement, replica: replica, sentAt: now), from: now)
    case .runs(let settlement, let replica, let sentAt):
      let (reply, isNew) = store.run(settlement, of: replica, at: now / 1000)
      let rest = sentAt + Self.deadline - now
      let isLost = random.next() % 100 < scenario.lostReplies
      if isLost {
        after(rest, .reply(nil, replica: replica), from: now)
      } else {
        deliver(.reply(reply, replica: replica), to: replica, within: rest, from: now)
      }
      guard isNew else { return }
      for other in replicas.indices where other != replica {
        deliver(.message(reply, replica: other), to: other, within: rest, from: now)
      }
    case .reply(let reply, let replica): replicas[replica].settled(reply, now: clock(replica, now))
    case .message(let message, let replica): replicas[replica].received(message[...], now: clock(replica, now))
    }
  }

  private mutating func request(_ caller: Int, at now: Int64) {
    let replica = Int.random(in: replicas.indices, using: &random)
    if case .limited = replicas[replica].take(rates, for: .address("\(caller)"), now: clock(replica, now)) {
      refusals += 1
    } else {
      grants.append(Grant(time: now, caller: caller, replica: replica))
    }
    let isPause = scenario.hasPauses && random.next() % 200 == 0
    let pause = Int64.random(in: 1...2 * scenario.pause, using: &random)
    after(isPause ? pause + 1_500_000_000 : pause, .request(caller: caller), from: now)
  }

  // MARK: The bound

  /// The result of a look at all windows of a row of grants.
  struct Excess {
    /// By how many requests the worst window exceeds the burst and the rate.
    var total = 0.0
    /// The same without the grants that the last replica could not know of.
    var known = -Double.infinity
  }

  /// Looks at every window that begins and ends with a grant. `unknown` is the time in which a replica may not know of the
  /// others' grants.
  static func excess(of grants: [Grant], over rate: Rate, unknown: Int64) -> Excess {
    let bucket = TokenBucket(rate)
    var excess = Excess()
    for (end, last) in grants.enumerated() {
      var hidden = 0
      for start in stride(from: end, through: 0, by: -1) {
        let first = grants[start]
        if first.replica != last.replica, last.time - first.time <= unknown { hidden += 1 }
        let allowed = Double(bucket.span + last.time - first.time) / Double(bucket.interval)
        let count = Double(end - start + 1)
        excess.total = max(excess.total, count - allowed)
        excess.known = max(excess.known, count - Double(hidden) - allowed)
      }
    }
    return excess
  }
}

extension Array {
  /// The index of the first element for which the condition is true, of an array in which it is first false, then true.
  fileprivate func partitioningIndex(_ isAfter: (Element) -> Bool) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if isAfter(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}

/// What the settlement script does, in Swift.
struct StoreModel {
  private(set) var buckets: [UInt64: Int64] = [:]
  private var settled: [Int: UInt64] = [:]

  /// Runs a settlement at a time in microseconds. Returns the debts, and whether it was new.
  mutating func run(_ settlement: RateSettlement, of replica: Int, at now: Int64) -> (reply: [UInt8], isNew: Bool) {
    buckets = buckets.filter { $0.value + 1_000_000 > now }
    let isNew = settled[replica] != settlement.sequence
    settled[replica] = settlement.sequence
    var reply: [UInt8] = []
    for start in stride(from: 0, to: settlement.buckets.count, by: 32) {
      let words = (0..<4).map { word in
        (0..<8).reduce(UInt64(0)) { $0 | UInt64(settlement.buckets[start + word * 8 + $1]) << UInt64($1 * 8) }
      }
      let (cost, ahead, most) = (Int64(bitPattern: words[1]), Int64(bitPattern: words[2]), Int64(bitPattern: words[3]))
      let old = min(buckets[words[0]] ?? 0, now + most)
      let full = max(old + cost, now + ahead)
      if isNew, full > old { buckets[words[0]] = full }
      reply.append(littleEndian: words[0])
      reply.append(littleEndian: UInt64(max(0, full - now)))
    }
    return (reply, isNew)
  }

  /// Forgets everything.
  mutating func flush() { buckets = [:] }
}
