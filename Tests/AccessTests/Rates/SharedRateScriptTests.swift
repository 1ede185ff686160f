import Cryptography
import TestSupport
import Testing

@testable import Access

@Suite("The store's scripts of rates", .otherPrograms)
struct SharedRateScriptTests {
  /// A real server, and what the scripts are run with.
  private final class Ground {
    let server: RedisServer
    let console: RedisConsole
    let base = Array("{test}:rate:".utf8)
    let header: [UInt8] = [1, 1] + Array("replica1".utf8)

    init() throws {
      server = try RedisServer()
      console = try RedisConsole(path: server.socket)
    }

    func run(_ script: StaticString, _ keys: [[UInt8]], _ arguments: [[UInt8]]) throws -> RedisReply {
      try console.command(
        [Array("EVAL".utf8), Array("\(script)".utf8), Array("\(keys.count)".utf8)] + keys + arguments)
    }

    func settle(_ settlement: RateSettlement, by replica: String = "replica1") throws -> RedisReply {
      try run(
        SharedRateScripts.settlement, [base],
        [
          Array(replica.utf8), Array("\(settlement.sequence)".utf8), Array("{test}:events".utf8), header,
          settlement.buckets,
        ])
    }

    /// The debts of a reply in microseconds.
    func debts(_ reply: RedisReply) throws -> [Int64] {
      let bytes = try #require(reply.bytes, "\(reply)")
      return stride(from: 8, to: bytes.count, by: 16).map { start in
        var debt: UInt64 = 0
        for byte in bytes[start..<start + 8].reversed() { debt = debt << 8 | UInt64(byte) }
        return Int64(bitPattern: debt)
      }
    }

    func take(_ buckets: [(id: BucketID, interval: Int64, room: Int64)], known: Int64 = 0) throws -> RedisReply {
      var packed: [UInt8] = []
      for bucket in buckets {
        packed += bucket.id.bytes
        for number in [bucket.interval, bucket.room, 1_000_000_000, known] {
          packed.append(littleEndian: UInt64(number))
        }
      }
      return try run(
        SharedRateScripts.strict, buckets.map { base + $0.id.bytes }, [Array("{test}:events".utf8), header, packed])
    }

    func key(_ id: BucketID) -> [UInt8] { base + id.bytes }

    func stored(_ id: BucketID) throws -> Int64? {
      try console.command([Array("GET".utf8), key(id)]).string.flatMap { Int64($0) }
    }

    /// The store's clock in microseconds.
    func now() throws -> Int64 {
      let parts = try #require(try console.command("TIME").elements)
      return (Int64(parts[0].string ?? "") ?? 0) * 1_000_000 + (Int64(parts[1].string ?? "") ?? 0)
    }
  }

  private static let second: Int64 = 1_000_000_000
  private static func id(_ number: UInt64) -> BucketID { BucketID(.caller, code: number << 8) }

  private static func settlement(
    _ sequence: UInt64, _ buckets: (id: BucketID, cost: Int64, ahead: Int64?)..., mostDebt: Int64 = 1000 * second
  ) -> RateSettlement {
    var settlement = RateSettlement(sequence: sequence, count: buckets.count)
    for bucket in buckets {
      settlement.append(bucket.id, cost: bucket.cost, ahead: bucket.ahead, mostDebt: mostDebt)
    }
    return settlement
  }

  // MARK: Settlements

  @Test("a settlement adds its cost to the debt, and leaves at least what a full bucket would have")
  func settlements() throws {
    let ground = try Ground()
    let (one, two) = (Self.id(1), Self.id(2))
    let before = try ground.now()
    let first = try ground.debts(
      try ground.settle(
        Self.settlement(1, (one, 5 * Self.second, 5 * Self.second), (two, 2 * Self.second, Self.second))))
    let after = try ground.now()
    #expect(first == [5_000_000, 1_000_000])
    let stored = try #require(try ground.stored(one))
    #expect((before...after).contains(stored - 5_000_000))
    _ = try ground.settle(Self.settlement(2, (one, 3 * Self.second, 3 * Self.second)), by: "replica2")
    #expect(try ground.stored(one) == stored + 3_000_000)
  }

  @Test("a settlement that is sent again counts once")
  func again() throws {
    let ground = try Ground()
    let settlement = Self.settlement(1, (Self.id(1), Self.second, 0))
    _ = try ground.settle(settlement)
    _ = try ground.settle(settlement)
    let once = try #require(try ground.stored(Self.id(1)))
    _ = try ground.settle(settlement)
    #expect(try ground.stored(Self.id(1)) == once)
    _ = try ground.settle(settlement, by: "replica2")
    #expect(try ground.stored(Self.id(1)) == once + 1_000_000)
    _ = try ground.settle(Self.settlement(2, (Self.id(1), Self.second, 0)))
    #expect(try ground.stored(Self.id(1)) == once + 2_000_000)
  }

  @Test("a question changes nothing")
  func questions() throws {
    let ground = try Ground()
    #expect(try ground.debts(try ground.settle(Self.settlement(1, (Self.id(1), 0, nil)))) == [0])
    #expect(try ground.stored(Self.id(1)) == nil)
    _ = try ground.settle(Self.settlement(2, (Self.id(1), 100 * Self.second, 100 * Self.second)))
    let stored = try ground.stored(Self.id(1))
    let debts = try ground.debts(try ground.settle(Self.settlement(3, (Self.id(1), 0, nil))))
    #expect(try ground.stored(Self.id(1)) == stored)
    #expect((90_000_000...100_000_000).contains(debts[0]))
  }

  @Test("buckets expire a second after they are full, and the number of a settlement after a minute")
  func expiry() throws {
    let ground = try Ground()
    _ = try ground.settle(Self.settlement(1, (Self.id(1), 60 * Self.second, 60 * Self.second)))
    let life = try #require(try ground.console.command([Array("PTTL".utf8), ground.key(Self.id(1))]).number)
    #expect((50_000...61_000).contains(life))
    let number = try #require(
      try ground.console.command([Array("PTTL".utf8), ground.base + Array("settled:replica1".utf8)]).number)
    #expect((50_000...60_000).contains(number))
  }

  @Test("a debt is at most what all replicas could have granted, whatever the clock did")
  func clamped() throws {
    let ground = try Ground()
    let future = try ground.now() + 3_600_000_000
    for value in ["\(future)", "1e300", "inf", "nan"] {
      try ground.console.command([Array("SET".utf8), ground.key(Self.id(1)), Array(value.utf8)])
      let settlement = Self.settlement(UInt64(value.count), (Self.id(1), Self.second, 0), mostDebt: 30 * Self.second)
      #expect(try ground.debts(try ground.settle(settlement)) == [31_000_000])
    }
  }

  @Test("debts are published behind the given beginning, also of strict decisions")
  func published() throws {
    let ground = try Ground()
    let listener = try RedisConsole(path: ground.server.socket)
    try listener.command("SUBSCRIBE", "{test}:events")
    let reply = try ground.settle(Self.settlement(1, (Self.id(1), Self.second, Self.second)))
    let first = try #require(try listener.reply().elements?.last?.bytes)
    #expect(first == ground.header + (try #require(reply.bytes)))
    _ = try ground.take([(Self.id(2), 1_000_000, 5_000_000)])
    let second = try #require(try listener.reply().elements?.last?.bytes)
    #expect(Array(second[10..<18]) == Self.id(2).bytes)
    #expect(Array(second[18...]) == [0x40, 0x42, 0x0F, 0, 0, 0, 0, 0])
  }

  @Test("2,048 buckets fit into one settlement")
  func most() throws {
    let ground = try Ground()
    var settlement = RateSettlement(sequence: 1, count: RateBuckets.mostSettled)
    for number in 1...RateBuckets.mostSettled {
      settlement.append(Self.id(UInt64(number)), cost: Self.second, ahead: Self.second, mostDebt: 100 * Self.second)
    }
    let debts = try ground.debts(try ground.settle(settlement))
    #expect(debts == Array(repeating: 1_000_000, count: RateBuckets.mostSettled))
  }

  @Test("another program's keys stay as they are, and the other buckets are settled")
  func foreignKeys() throws {
    let ground = try Ground()
    try ground.console.command([Array("HSET".utf8), ground.key(Self.id(1)), Array("a".utf8), Array("b".utf8)])
    try ground.console.command([Array("SET".utf8), ground.key(Self.id(2)), Array("their text".utf8)])
    let reply = try ground.settle(
      Self.settlement(
        1, (Self.id(1), Self.second, Self.second), (Self.id(2), Self.second, Self.second),
        (Self.id(3), Self.second, Self.second)))
    #expect(try ground.debts(reply) == [-1, -1, 1_000_000])
    #expect(try ground.console.command([Array("HGET".utf8), ground.key(Self.id(1)), Array("a".utf8)]).string == "b")
    #expect(try ground.console.command([Array("GET".utf8), ground.key(Self.id(2))]).string == "their text")
    for id in [Self.id(1), Self.id(2)] {
      guard case .error = try ground.take([(Self.id(3), 1_000_000, 9_000_000), (id, 1_000_000, 9_000_000)]) else {
        Issue.record("The script took a token of another program's key.")
        continue
      }
    }
    #expect(try ground.console.command("HGET", "none", "a") == .null)
    try ground.console.command([Array("DEL".utf8), ground.base + Array("settled:replica1".utf8)])
    try ground.console.command(
      [Array("LPUSH".utf8), ground.base + Array("settled:replica1".utf8), Array("theirs".utf8)])
    guard case .error = try ground.settle(Self.settlement(2, (Self.id(3), Self.second, Self.second))) else {
      Issue.record("The script used another program's key.")
      return
    }
  }

  @Test("a store without memory refuses a settlement whole")
  func outOfMemory() throws {
    let ground = try Ground()
    _ = try ground.settle(Self.settlement(1, (Self.id(1), 100 * Self.second, 100 * Self.second)))
    let stored = try ground.stored(Self.id(1))
    try ground.console.command("CONFIG", "SET", "maxmemory", "1")
    guard case .error = try ground.settle(Self.settlement(2, (Self.id(1), Self.second, 0))) else {
      Issue.record("The store accepted the settlement.")
      return
    }
    #expect(try ground.stored(Self.id(1)) == stored)
    try ground.console.command("CONFIG", "SET", "maxmemory", "0")
    _ = try ground.settle(Self.settlement(2, (Self.id(1), Self.second, 0)))
    #expect(try ground.stored(Self.id(1)) == stored.map { $0 + 1_000_000 })
  }

  // MARK: Strict decisions

  @Test("a strict decision takes tokens while there are any, from all buckets or from none")
  func strict() throws {
    let ground = try Ground()
    // A minute for each token, so that none comes back during the test. Three tokens each, and two in all.
    let minute: Int64 = 60_000_000
    func take(_ number: UInt64) throws -> [Int64] {
      let reply = try ground.take([(Self.id(number), minute, 2 * minute), (Self.id(9), minute, minute)])
      return try #require(reply.elements).compactMap(\.number)
    }
    #expect(try take(1) == [1, 0, 0])
    let second = try take(1)
    #expect(second.first == 1)
    #expect(second.dropFirst().allSatisfy { (minute - 10_000_000...minute).contains($0) })
    let mine = try ground.stored(Self.id(1))
    #expect(try take(1).first == 0)
    #expect(try take(2).prefix(2) == [0, 0])
    #expect(try ground.stored(Self.id(1)) == mine)
    #expect(try ground.stored(Self.id(2)) == nil)
  }

  @Test("a strict decision counts a debt that the replica knows of, as after a restart of the store")
  func strictAfterRestart() throws {
    let ground = try Ground()
    let take = { try ground.take([(Self.id(1), 60_000_000, 120_000_000)], known: $0).elements?.compactMap(\.number) }
    #expect(try take(150_000_000) == [0, 150_000_000])
    #expect(try ground.stored(Self.id(1)) == nil)
    #expect(try take(120_000_000) == [1, 120_000_000])
    #expect(try #require(try take(0)).first == 0)
  }

  @Test("the values and the scripts agree on the format")
  func together() throws {
    let ground = try Ground()
    let key = SecretBytes(copying: Array("a secret of the group, 32 bytes.".utf8).span)
    let rates = ClientRates(
      client: "c", perCaller: Rate(perSecond: 0.01, burst: 3), total: Rate(perSecond: 0.01, burst: 4), isStrict: true)
    let replicas = try (0..<2).map { _ in RateLimiter(try MessageAuthenticator(key: key)) }
    let now: UInt64 = 1_000_000_000_000
    for replica in replicas { replica.changed(isTogether: true, replicas: 2, now: now) }
    for _ in 0..<2 { #expect(RateLimiterTests.isAllowed(replicas[0].take(rates, for: .address("a"), now: now))) }
    let reply = try ground.settle(try #require(replicas[0].settlement(now: now)))
    replicas[0].settled(reply.bytes, now: now)
    #expect(replicas[0].settlement(now: now) == nil)
    replicas[1].received(try #require(reply.bytes)[...], now: now)
    // One token of the caller is left, by both ways.
    let take = try #require(replicas[1].strictTake(rates, for: .address("a"), now: now))
    let keys: [[UInt8]] = take.names.map { ground.base + $0 }
    let taken = try ground.run(
      SharedRateScripts.strict, keys, [Array("{test}:events".utf8), ground.header, take.buckets])
    let elements = try #require(taken.elements)
    let numbers = elements.compactMap(\.number)
    let verdict = replicas[1].verdict(
      StrictReply(isTaken: numbers[0] == 1, debts: Array(numbers.dropFirst())), on: take, now: now)
    guard case .allowed(let limit) = verdict else {
      Issue.record("The store refused: \(numbers)")
      return
    }
    #expect(limit.remaining == 0)
    #expect(!RateLimiterTests.isAllowed(replicas[1].take(rates, for: .address("a"), now: now)))
    #expect(RateLimiterTests.isAllowed(replicas[1].take(rates, for: .address("b"), now: now)))
    #expect(!RateLimiterTests.isAllowed(replicas[1].take(rates, for: .address("c"), now: now)))
  }
}
