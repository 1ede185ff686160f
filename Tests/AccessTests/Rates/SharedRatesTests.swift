import Bytes
import Cryptography
import TestSupport
import Testing

@testable import Access

@Suite("The rates of a replica")
struct SharedRatesTests {
  static let second: UInt64 = 1_000_000_000
  private static let start = 1000 * second
  private static let caller = ClientRates(client: "c", perCaller: Rate(perSecond: 1, burst: 10), total: nil)

  private static func authenticator(_ key: String = "a secret of the group, 32 bytes.") throws -> MessageAuthenticator {
    try MessageAuthenticator(key: SecretBytes(copying: Array(key.utf8).span))
  }

  /// A replica of a group of `count`.
  private static func replica(of count: Int = 2) throws -> RateLimiter {
    let rates = RateLimiter(try authenticator())
    rates.changed(isTogether: true, replicas: count, now: start)
    return rates
  }

  private static func take(
    _ replica: RateLimiter, _ rates: ClientRates = caller, _ address: String = "a", at now: UInt64 = start
  ) -> RateVerdict {
    replica.take(rates, for: .address(address), now: now)
  }

  /// The requests that the replica grants at once.
  private static func grants(
    _ replica: RateLimiter, _ rates: ClientRates = caller, _ address: String = "a", at now: UInt64 = start,
    atMost: Int = 1000
  ) -> Int {
    for count in 0..<atMost {
      guard RateLimiterTests.isAllowed(take(replica, rates, address, at: now)) else { return count }
    }
    return atMost
  }

  /// Settles a replica with the store. Returns the message for the others.
  @discardableResult
  private static func settle(
    _ replica: RateLimiter, _ store: inout StoreModel, as number: Int = 0, at now: UInt64 = start
  ) throws -> [UInt8] {
    let settlement = try #require(replica.settlement(now: now))
    let (reply, _) = store.run(settlement, of: number, at: Int64(now / 1000))
    replica.settled(reply, now: now)
    return reply
  }

  /// The ID of the usual caller's bucket.
  private static var id: BucketID {
    get throws {
      BucketName.caller(.address("a"), of: "c", TokenBucket(Rate(perSecond: 1, burst: 10))).id(try authenticator())
    }
  }

  private static func message(_ id: UInt64, _ debt: Int64) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(littleEndian: id)
    bytes.append(littleEndian: UInt64(bitPattern: debt))
    return bytes
  }

  // MARK: Names

  @Test("have the same name on each replica, and another name for each other bucket")
  func names() throws {
    let bucket = TokenBucket(Rate(perSecond: 1, burst: 10))
    let names: [BucketName] = [
      .caller(.address("a"), of: "c", bucket), .caller(.subject("a"), of: "c", bucket),
      .caller(.address("ca"), of: "", bucket), .caller(.address("b\u{1}a"), of: "c", bucket),
      .caller(.address("a"), of: "c\u{1}b", bucket), .caller(.address("a"), of: "d", bucket), .total(of: "c", bucket),
      .failure(from: "a", bucket), .total(of: "ca", bucket), .failure(from: "c", bucket),
      .caller(.address("a"), of: "c", TokenBucket(Rate(perSecond: 1, burst: 11))),
      .caller(.address("a"), of: "c", TokenBucket(Rate(perSecond: 2, burst: 10))),
    ]
    let (one, other) = (try Self.authenticator(), try Self.authenticator())
    #expect(names.map { $0.id(one) } == names.map { $0.id(other) })
    #expect(Set(names.map { $0.id(one) }).count == names.count)
    #expect(Set(names.map { $0.id(one).bits << 2 }).count == names.count)
    #expect(names.map { $0.id(one).table } == [0, 0, 0, 0, 0, 0, 1, 2, 1, 2, 0, 0])
  }

  @Test("begin full after a change of the signing key")
  func changedKey() throws {
    let replica = try Self.replica()
    #expect(Self.grants(replica) == 10)
    replica.use(try Self.authenticator("another secret of the same group"))
    #expect(Self.grants(replica) == 10)
  }

  // MARK: Together

  @Test("never refuse a caller that keeps its rate and uses one replica only")
  func steady() throws {
    let replica = try Self.replica()
    let rates = ClientRates(client: "c", perCaller: Rate(perSecond: 10, burst: 1), total: nil)
    var store = StoreModel()
    for number in 0..<100 {
      let now = Self.start + UInt64(number) * Self.second / 10
      #expect(RateLimiterTests.isAllowed(Self.take(replica, rates, at: now)))
      try Self.settle(replica, &store, at: now + 99_000_000)
    }
  }

  @Test("know what others granted to a caller that comes here for the first time")
  func hopping() throws {
    let (one, other) = (try Self.replica(), try Self.replica())
    var store = StoreModel()
    #expect(Self.grants(one) == 10)
    other.received(try Self.settle(one, &store)[...], now: Self.start)
    #expect(Self.take(other) == .limited(.init(.caller, remaining: 0, seconds: 1)))
    #expect(Self.grants(other, at: Self.start + 4 * Self.second) == 4)
  }

  @Test("let a caller repay what several replicas granted at once")
  func overdraft() throws {
    let replicas = try (0..<3).map { _ in try Self.replica(of: 3) }
    var store = StoreModel()
    for replica in replicas { #expect(Self.grants(replica) == 10) }
    for (number, replica) in replicas.enumerated() {
      let message = try Self.settle(replica, &store, as: number)
      for other in replicas where other !== replica { other.received(message[...], now: Self.start) }
    }
    // Thirty requests at one a second, less the ten that a full bucket has.
    for replica in replicas {
      #expect(Self.take(replica) == .limited(.init(.caller, remaining: 0, seconds: 21)))
      let later = Self.take(replica, at: Self.start + 20 * Self.second)
      #expect(later == .limited(.init(.caller, remaining: 0, seconds: 1)))
    }
    #expect(Self.grants(replicas[0], at: Self.start + 24 * Self.second) == 4)
  }

  @Test("count the failed credentials of an address together")
  func failures() throws {
    let (one, other) = (try Self.replica(), try Self.replica())
    var store = StoreModel()
    for _ in 0..<100 { #expect(one.takeFailure(from: "a", now: Self.start) == nil) }
    #expect(one.takeFailure(from: "a", now: Self.start) == 1)
    #expect(other.takeFailure(from: "a", now: Self.start) == nil)
    other.received(try Self.settle(one, &store)[...], now: Self.start)
    #expect(other.takeFailure(from: "a", now: Self.start) == 2)
    #expect(other.failureWait(of: "a", now: Self.start) == 2)
    #expect(other.takeFailure(from: "b", now: Self.start) == nil)
    #expect(other.failureWait(of: "b", now: Self.start) == nil)
    #expect(other.failureWait(of: "c", now: Self.start) == nil)
  }

  @Test("take a token of the caller and of the total, or none")
  func both() throws {
    let replica = try Self.replica()
    let rates = ClientRates(
      client: "c", perCaller: Rate(perSecond: 1, burst: 3), total: Rate(perSecond: 0.1, burst: 4))
    #expect(Self.grants(replica, rates, "a") == 3)
    #expect(Self.grants(replica, rates, "b") == 1)
    #expect(Self.take(replica, rates, "b") == .limited(.init(.total, remaining: 0, seconds: 10)))
    let settlement = try #require(replica.settlement(now: Self.start))
    // The total, and two callers; b has spent one token only.
    #expect(settlement.buckets.count == 3 * 32)
    let later = Self.take(replica, rates, "b", at: Self.start + 10 * Self.second)
    #expect(later == .allowed(.init(.total, remaining: 0, seconds: 10)))
  }

  // MARK: What comes from outside

  @Test("ignore messages that are no debts")
  func malformedMessages() throws {
    let replica = try Self.replica()
    var random = SplitMix(seed: 7)
    for length in [1, 8, 15, 17, 31, 16 * RateBuckets.mostSettled + 16] {
      replica.received((0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }[...], now: Self.start)
    }
    let id = try Self.id
    replica.received(Self.message(id.bits, -1)[...], now: Self.start)
    replica.received(Self.message(id.bits, .min)[...], now: Self.start)
    replica.received(Self.message(.max, 1_000_000)[...], now: Self.start)
    #expect(Self.grants(replica) == 10)
  }

  @Test("send a settlement again if its reply has other buckets", arguments: [0, 8, 16, 48])
  func malformedReplies(length: Int) throws {
    let replica = try Self.replica()
    var store = StoreModel()
    #expect(Self.grants(replica) == 10)
    let settlement = try #require(replica.settlement(now: Self.start))
    replica.settled([UInt8](repeating: 7, count: length), now: Self.start)
    #expect(replica.settlement(now: Self.start) == settlement)
    #expect(Self.grants(replica) == 0)
    try Self.settle(replica, &store)
    #expect(replica.settlement(now: Self.start) == nil)
  }

  @Test("make no caller wait longer than all replicas could have granted", arguments: [2, 5, 10_000])
  func clamped(replicas: Int) throws {
    let replica = try Self.replica(of: replicas)
    let id = try Self.id
    for debt in [Int64.max, Int64.max / 1000, Int64(1) << 53] {
      replica.received(Self.message(id.bits, debt)[...], now: Self.start)
      guard case .limited(let limit) = Self.take(replica) else {
        Issue.record("The debt \(debt) is ignored.")
        continue
      }
      #expect(limit.seconds == 11 * (replicas + 1) - 9)
    }
  }

  @Test("survive any sums at the slowest rate, the largest burst and the end of the clock")
  func extremes() throws {
    let rates = ClientRates(client: "c", perCaller: Rate(perSecond: 0.01, burst: 1_000_000), total: nil)
    let id = BucketName.caller(.address("a"), of: "c", TokenBucket(Rate(perSecond: 0.01, burst: 1_000_000)))
      .id(try Self.authenticator())
    for now in [0, UInt64.max] {
      let replica = RateLimiter(try Self.authenticator())
      replica.changed(isTogether: true, replicas: .max, now: now)
      _ = Self.take(replica, rates, at: now)
      replica.received(Self.message(id.bits, .max)[...], now: now)
      _ = Self.take(replica, rates, at: now)
      replica.changed(isTogether: false, replicas: .min, now: now)
      _ = Self.take(replica, rates, at: now)
      replica.changed(isTogether: true, replicas: 0, now: now)
      _ = replica.settlement(now: now)
      replica.settled(Self.message(id.bits, .max), now: now)
    }
  }

  @Test("survive anything that a store says, in any order", arguments: 1...4)
  func hostileStore(seed: UInt64) throws {
    var random = SplitMix(seed: seed)
    let replica = RateLimiter(try Self.authenticator(), callers: 128)
    let limits = [Rate(perSecond: 0.01, burst: 1_000_000), Rate(perSecond: 1_000_000, burst: 1)]
    let clients = limits.flatMap { rate in
      [nil, limits.randomElement(using: &random)].map { ClientRates(client: "c", perCaller: rate, total: $0) }
    }
    var now = Self.start
    var reply: [UInt8] = []
    for _ in 0..<20_000 {
      now += UInt64.random(in: 0...100_000_000, using: &random)
      switch UInt8.random(in: 0...9, using: &random) {
      case 0: reply = replica.settlement(now: now)?.buckets ?? reply
      case 1:
        // The right IDs with wrong debts, or bytes that are no debts.
        var debts: [UInt8] = []
        for start in stride(from: 0, to: reply.count, by: 32) {
          debts += reply[start..<start + 8]
          for _ in 0..<8 { debts.append(UInt8.random(in: 0...255, using: &random)) }
        }
        replica.settled(Bool.random(using: &random) ? debts : nil, now: now)
      case 2:
        let ids = stride(from: 0, to: reply.count, by: 32).map { Array(reply[$0..<$0 + 8]) }
        let debt = (0..<8).map { _ in ([0, 0xFF, 0x7F] as [UInt8]).randomElement(using: &random) ?? 0 }
        replica.received(((ids.randomElement(using: &random) ?? debt) + debt)[...], now: now)
      case 3:
        replica.changed(
          isTogether: UInt8.random(in: 0...3, using: &random) > 0, replicas: .random(in: 0...20_000, using: &random),
          now: now)
      default:
        let client = try #require(clients.randomElement(using: &random))
        _ = Self.take(replica, client, "\(UInt8.random(in: 0...255, using: &random))", at: now)
      }
    }
    #expect(replica.bytes < 8 << 20)
  }

  @Test("ask the store about a bucket that has refused for a second without news")
  func asking() throws {
    let replica = try Self.replica()
    let rates = ClientRates(client: "c", perCaller: Rate(perSecond: 0.01, burst: 1), total: nil)
    var store = StoreModel()
    #expect(Self.grants(replica, rates) == 1)
    try Self.settle(replica, &store)
    #expect(Self.grants(replica, rates, at: Self.start + Self.second / 2) == 0)
    #expect(replica.settlement(now: Self.start + Self.second / 2) == nil)
    let later = Self.start + 2 * Self.second
    for _ in 0..<10 { #expect(Self.grants(replica, rates, at: later) == 0) }
    store.flush()
    try Self.settle(replica, &store, at: later)
    #expect(store.buckets.isEmpty)
    #expect(Self.grants(replica, rates, at: later) == 1)
  }

  // MARK: Alone

  @Test("grant a part of the rate without the store", arguments: [(1, 10), (3, 3), (5, 2), (20, 1)])
  func alone(replicas: Int, burst: Int) throws {
    let replica = try Self.replica(of: replicas)
    replica.changed(isTogether: false, replicas: replicas, now: Self.start)
    #expect(Self.grants(replica) == burst)
    let wait = UInt64(replicas) * Self.second
    #expect(Self.take(replica) == .limited(.init(.caller, remaining: 0, seconds: replicas)))
    #expect(Self.grants(replica, at: Self.start + wait - 1) == 0)
    #expect(Self.grants(replica, at: Self.start + wait) == 1)
    #expect(replica.settlement(now: Self.start) == nil)
  }

  @Test("keep a bucket's fill when the store goes")
  func leaving() throws {
    let replica = try Self.replica(of: 2)
    #expect(Self.grants(replica, atMost: 6) == 6)
    replica.changed(isTogether: false, replicas: 2, now: Self.start)
    #expect(Self.grants(replica) == 2)
  }

  @Test("tell a store that has lost everything what they know")
  func reunion() throws {
    let (one, other) = (try Self.replica(), try Self.replica())
    var store = StoreModel()
    #expect(Self.grants(one) == 10)
    try Self.settle(one, &store)
    for replica in [one, other] { replica.changed(isTogether: false, replicas: 2, now: Self.start) }
    store.flush()
    let now = Self.start + 5 * Self.second
    for replica in [one, other] { replica.changed(isTogether: true, replicas: 2, now: now) }
    // The bucket has gained five tokens. The first grant takes all five that are gone to the store.
    #expect(Self.grants(one, at: now, atMost: 1) == 1)
    other.received(try Self.settle(one, &store, at: now)[...], now: now)
    #expect(Self.grants(other, at: now) == 4)
  }

  @Test("settle after a short pause what was not settled, and only once")
  func shortPause() throws {
    let replica = try Self.replica()
    var store = StoreModel()
    #expect(Self.grants(replica, atMost: 3) == 3)
    let settlement = try #require(replica.settlement(now: Self.start))
    _ = store.run(settlement, of: 0, at: Int64(Self.start / 1000))
    replica.settled(nil, now: Self.start)
    replica.changed(isTogether: false, replicas: 2, now: Self.start)
    #expect(replica.settlement(now: Self.start) == nil)
    replica.changed(isTogether: true, replicas: 2, now: Self.start + 1)
    #expect(try #require(replica.settlement(now: Self.start + 1)).sequence == settlement.sequence)
    try Self.settle(replica, &store)
    #expect(store.buckets.values.max() == Int64(Self.start / 1000) + 3_000_000)
  }

  @Test("count what they granted alone, also if the reply to a settlement before that comes late")
  func lateReply() throws {
    let replica = try Self.replica()
    var store = StoreModel()
    #expect(Self.grants(replica, atMost: 4) == 4)
    let settlement = try #require(replica.settlement(now: Self.start))
    let (reply, _) = store.run(settlement, of: 0, at: Int64(Self.start / 1000))
    replica.changed(isTogether: false, replicas: 2, now: Self.start)
    #expect(Self.grants(replica) == 3)
    replica.changed(isTogether: true, replicas: 2, now: Self.start + 1)
    replica.settled(reply, now: Self.start + 1)
    #expect(Self.grants(replica, at: Self.start + 1) == 0)
  }

  @Test("give up after a long pause what was not settled")
  func longPause() throws {
    let replica = try Self.replica()
    #expect(Self.grants(replica, atMost: 3) == 3)
    replica.changed(isTogether: false, replicas: 2, now: Self.start)
    replica.changed(isTogether: true, replicas: 2, now: Self.start + 2 * Self.second)
    #expect(replica.settlement(now: Self.start + 2 * Self.second) == nil)
  }

  @Test("give up a settlement that the store never accepts")
  func poisoned() throws {
    let replica = try Self.replica()
    _ = Self.take(replica)
    for _ in 0..<RateBuckets.mostMisses {
      #expect(replica.settlement(now: Self.start) != nil)
      replica.settled(nil, now: Self.start)
    }
    #expect(replica.settlement(now: Self.start) == nil)
  }

  // MARK: Bounds

  @Test("settle 2,048 buckets at a time, and remember 65,536")
  func bounded() throws {
    let replica = try Self.replica()
    var store = StoreModel()
    for number in 0..<RateBuckets.mostRecords + 100 { _ = Self.take(replica, Self.caller, "\(number)") }
    #expect(replica.unrecorded == 100)
    for _ in 0..<RateBuckets.mostRecords / RateBuckets.mostSettled {
      let settlement = try #require(replica.settlement(now: Self.start))
      #expect(settlement.buckets.count == RateBuckets.mostSettled * 32)
      replica.settled(store.run(settlement, of: 0, at: Int64(Self.start / 1000)).reply, now: Self.start)
    }
    #expect(replica.settlement(now: Self.start) == nil)
    #expect(replica.bytes < 16 << 20)
  }

  // MARK: Strict clients

  private static let strict = ClientRates(
    client: "c", perCaller: Rate(perSecond: 1, burst: 10), total: Rate(perSecond: 2, burst: 100), isStrict: true)

  @Test("turn the store's decision into a verdict, and remember it")
  func strictVerdicts() throws {
    let limiter = try Self.replica()
    let take = try #require(limiter.strictTake(Self.strict, for: .address("a"), now: Self.start))
    #expect(take.names.count == 2)
    #expect(take.buckets.count == 80)
    func verdict(_ isTaken: Bool, _ debts: Int64...) -> RateVerdict? {
      limiter.verdict(StrictReply(isTaken: isTaken, debts: debts), on: take, now: Self.start)
    }
    #expect(verdict(true, 4_000_000, 0) == .allowed(.init(.caller, remaining: 5, seconds: 5)))
    #expect(verdict(false, 10_000_000, 0) == .limited(.init(.caller, remaining: 0, seconds: 1)))
    #expect(verdict(false, 0, 52_000_000) == .limited(.init(.total, remaining: 0, seconds: 3)))
    // The total has too large a debt now, also without the store.
    let local = limiter.take(Self.strict, for: .address("b"), now: Self.start)
    #expect(local == .limited(.init(.total, remaining: 0, seconds: 3)))
  }

  @Test("tell a store that has lost everything what they know, also with a strict rate")
  func strictReunion() throws {
    let replica = try Self.replica()
    let rates = ClientRates(client: "c", perCaller: Rate(perSecond: 1, burst: 10), total: nil, isStrict: true)
    func knownDebt() throws -> Int64? {
      try #require(replica.strictTake(rates, for: .address("a"), now: Self.start)).parts.first?.knownDebt
    }
    #expect(Self.grants(replica, rates, atMost: 4) == 4)
    #expect(try knownDebt() == 0)
    replica.changed(isTogether: false, replicas: 2, now: Self.start)
    replica.changed(isTogether: true, replicas: 2, now: Self.start)
    #expect(try knownDebt() == 4_000_000_000)
    let take = try #require(replica.strictTake(rates, for: .address("a"), now: Self.start))
    let reply = StrictReply(isTaken: true, debts: [4_000_000])
    #expect(replica.verdict(reply, on: take, now: Self.start) == .allowed(.init(.caller, remaining: 5, seconds: 5)))
    #expect(try knownDebt() == 0)
  }

  @Test("do not believe a decision that makes no sense")
  func strictNonsense() throws {
    let limiter = try Self.replica()
    let take = try #require(limiter.strictTake(Self.strict, for: .address("a"), now: Self.start))
    for reply in [
      StrictReply(isTaken: true, debts: []), StrictReply(isTaken: true, debts: [0]),
      StrictReply(isTaken: true, debts: [0, -1]), StrictReply(isTaken: false, debts: [0, 0]),
      StrictReply(isTaken: true, debts: [.max, .max]),
    ] { #expect(limiter.verdict(reply, on: take, now: Self.start) == nil) }
    #expect(RateLimiterTests.isAllowed(limiter.take(Self.strict, for: .address("a"), now: Self.start)))
  }

  @Test("ask no store for a client that is not strict, and none that is gone")
  func notStrict() throws {
    let replica = try Self.replica()
    #expect(replica.strictTake(Self.caller, for: .address("a"), now: Self.start) == nil)
    replica.changed(isTogether: false, replicas: 2, now: Self.start)
    #expect(replica.strictTake(Self.strict, for: .address("a"), now: Self.start) == nil)
    #expect(RateLimiter().strictTake(Self.strict, for: .address("a"), now: Self.start) == nil)
  }
}
