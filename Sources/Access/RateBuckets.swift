/// The buckets of this process: a value, with the time as an argument. The replicas of a group share them.
///
/// A replica grants from what it knows. While there is a store, it also records what it grants, and settles that every
/// 100 ms. The store replies with each bucket's debt, and the other replicas hear of it at once. So a replica knows all
/// grants but those of the others since their last settlement; `docs/decisions.md` has the proof of the bound.
///
/// A row of grants of one bucket changes its moment of full from `x` to `max(x + cost, fullAt)`, where `cost` is the sum of
/// their intervals, and `fullAt` the moment that results for a bucket that was full before the first of them. Two
/// numbers thus record any row exactly, and rows of several replicas can follow each other in any order: the result is
/// never earlier than that of all their grants in the order of time.
struct RateBuckets {
  /// The most buckets of one settlement: 2,048. The store takes about 5 ms for them, in which it does nothing else.
  static let mostSettled = 2048
  /// The most buckets that wait to be settled: 65,536, 2.5 MiB. The grants of further ones count on this replica only.
  static let mostRecords = 65_536
  /// The settlements without a reply after which their grants are given up, about a second.
  static let mostMisses = 10
  private static let mostReplicas = 10_000
  /// The time after which a bucket that refuses asks the store for news: 8 ticks, about a second.
  private static let patience: UInt32 = 8
  /// One second in nanoseconds.
  static let second: Int64 = 1_000_000_000

  private struct Entry: BucketTableEntry {
    let key: UInt64
    var fullAt: Int64
    /// The number of its latest record. An old number is harmless: the record there has another key, or is another's.
    var record: UInt32 = 0
    /// The tick of the last news of it.
    var heard: UInt32 = 0

    static let free = Entry(key: 0, fullAt: .min)
  }

  /// The grants of one bucket that the store has not confirmed.
  private struct Record {
    let id: BucketID
    var cost: Int64
    var fullAt: Int64
    /// The replica's own clamp for what the store says.
    let mostDebt: Int64
    /// The number of an earlier record of the same bucket that is on its way. Without one, the record's own number.
    let previous: UInt32

    /// Returns the moment of full after the recorded grants, if it was `moment` before them.
    func apply(to moment: Int64) -> Int64 { max(moment + cost, fullAt) }
  }

  private var tables: [BucketTable<Entry>]
  /// The number of the first record. Numbers go on where indices begin again.
  private var firstNumber: UInt32 = 0
  private var records: [Record] = []
  /// How many of the first records are on their way to the store.
  private var sent = 0
  /// Whether the reply may lack own grants: the store may have run the settlement before, or this replica was alone.
  private var mayLackGrants = false
  /// How often in a row their settlement had no reply.
  private var misses = 0
  /// The number of the present settlement: the store runs each only once.
  private(set) var sequence: UInt64 = 0

  /// Whether the replicas of a group share the buckets, even if there is no store now.
  private let isShared: Bool
  private(set) var isTogether = false
  private var replicas: Int64 = 1
  private var mostDebtPerReplica = Int64.max / 8
  /// The tick at which the store came back. It may have lost what was known until then.
  private var reunion: UInt32 = 0
  private var aloneSince = Int64.min
  /// The grants without a record, because there were too many buckets.
  private(set) var unrecorded = 0

  init(callers: Int, isShared: Bool) {
    self.isShared = isShared
    tables = [callers, RateLimits.clients, RateLimits.failedAddresses].map { BucketTable(maximum: $0) }
  }

  var bytes: Int { tables.reduce(records.capacity * MemoryLayout<Record>.stride) { $0 + $1.bytes } }

  typealias Bucket = (rate: TokenBucket, id: BucketID)

  mutating func take(
    _ own: Bucket?, _ total: Bucket?, now: Int64
  ) -> (own: TokenBucket.TakeResult?, total: TokenBucket.TakeResult?) {
    let (mine, ours) = (own.map { look($0, now: now) }, total.map { look($0, now: now) })
    let isTaken = (mine?.wait ?? 0) == 0 && (ours?.wait ?? 0) == 0
    if let own, let mine { store(mine, own, isTaken: isTaken, now: now) }
    if let total, let ours { store(ours, total, isTaken: isTaken, now: now) }
    return (mine, ours)
  }

  /// Returns the time until a token is available, and takes none. A bucket that refuses for a while asks for news.
  mutating func wait(_ bucket: Bucket, now: Int64) -> Int64 {
    let outcome = look(bucket, now: now)
    keep(outcome, bucket, now: now)
    return outcome.wait
  }

  private func place(of id: BucketID) -> Int? { tables[id.table].place(of: id.bits) }

  private func look(_ bucket: Bucket, now: Int64) -> TokenBucket.TakeResult {
    let fullAt = place(of: bucket.id).map { tables[bucket.id.table][place: $0].fullAt } ?? .min
    let mine = isTogether || replicas == 1 ? bucket.rate : bucket.rate.divided(by: replicas)
    return mine.take(fullAt: fullAt, now: now, mostDebt: mostDebt(bucket.rate))
  }

  /// The largest debt. Until replicas hear of each other, each can grant a burst and what refills meanwhile.
  private func mostDebt(_ bucket: TokenBucket) -> Int64 {
    isShared ? min(bucket.span + Self.second, mostDebtPerReplica) * (replicas + 1) : bucket.span
  }

  private mutating func store(_ outcome: TokenBucket.TakeResult, _ bucket: Bucket, isTaken: Bool, now: Int64) {
    guard isTaken else { return keep(outcome, bucket, now: now) }
    let (interval, id) = (bucket.rate.interval, bucket.id)
    guard let place = place(of: id) else {
      var entry = Entry(key: id.bits, fullAt: outcome.fullAt)
      if isTogether {
        entry.heard = mark(now)
        append(bucket, cost: interval, fullAt: now + interval, to: &entry)
      }
      return tables[id.table].set(entry, now: now)
    }
    var entry = tables[id.table][place: place]
    entry.fullAt = outcome.fullAt
    if isTogether { record(bucket, in: &entry, before: outcome.untakenFullAt, now: now) }
    tables[id.table][place: place] = entry
  }

  /// Keeps the debt of a bucket that was not taken from. If it has refused for a while without news, it asks the store.
  private mutating func keep(_ outcome: TokenBucket.TakeResult, _ bucket: Bucket, now: Int64) {
    let id = bucket.id
    guard let place = place(of: id) else { return }
    var entry = tables[id.table][place: place]
    entry.fullAt = min(entry.fullAt, outcome.untakenFullAt)
    let tick = Self.tick(now)
    if isTogether, outcome.wait > 0, tick &- entry.heard > Self.patience, index(of: entry) == nil {
      append(bucket, cost: 0, fullAt: isConfirmed(entry) ? .min : entry.fullAt, to: &entry)
    }
    tables[id.table][place: place] = entry
  }

  private mutating func record(_ bucket: Bucket, in entry: inout Entry, before: Int64, now: Int64) {
    let interval = bucket.rate.interval
    if let index = index(of: entry), index >= sent {
      records[index].cost += interval
      records[index].fullAt = max(records[index].fullAt, now) + interval
    } else {
      // What the store may have lost is part of what this replica tells it.
      let start = isConfirmed(entry) ? now : before
      append(bucket, cost: interval, fullAt: start + interval, to: &entry)
    }
  }

  private mutating func append(_ bucket: Bucket, cost: Int64, fullAt: Int64, to entry: inout Entry) {
    guard records.count < Self.mostRecords else {
      unrecorded += 1
      return
    }
    let number = firstNumber &+ UInt32(records.count)
    let previous = index(of: entry) == nil ? number : entry.record
    records.append(
      Record(id: bucket.id, cost: cost, fullAt: fullAt, mostDebt: mostDebt(bucket.rate), previous: previous))
    entry.record = number
  }

  private func index(of entry: Entry) -> Int? {
    let index = Int(entry.record &- firstNumber)
    return index < records.count && records[index].id.bits == entry.key ? index : nil
  }

  mutating func settlement(now: Int64) -> RateSettlement? {
    guard isTogether, !records.isEmpty else { return nil }
    mayLackGrants = sent > 0
    if sent == 0 {
      sent = min(records.count, Self.mostSettled)
      sequence += 1
    }
    var settlement = RateSettlement(sequence: sequence, count: sent)
    for record in records[..<sent] {
      let ahead = record.fullAt == .min ? nil : record.fullAt - now
      settlement.append(record.id, cost: record.cost, ahead: ahead, mostDebt: record.mostDebt)
    }
    return settlement
  }

  /// Takes the reply of a settlement: the debts of its buckets in the same order. Without a reply (nil), the store runs
  /// the settlement, or has run it: it is sent again with the same number.
  mutating func settled(_ reply: ArraySlice<UInt8>?, now: Int64) {
    guard sent > 0 else { return }
    guard let reply, let debts = RateDebts(reply), debts.count == sent,
      zip(debts, records).allSatisfy({ $0.id == $1.id })
    else {
      misses += 1
      if misses >= Self.mostMisses { removeRecords(sent) }
      return
    }
    let mostDebts = records[..<sent].map(\.mostDebt)
    removeRecords(sent)
    for (debt, mostDebt) in zip(debts, mostDebts) {
      guard let nanoseconds = debt.nanoseconds else { continue }
      learn(debt.id, min(nanoseconds, mostDebt), isOwn: !mayLackGrants, now: now)
    }
  }

  /// Takes the debts that another replica's settlement left.
  mutating func received(_ message: ArraySlice<UInt8>, now: Int64) {
    guard let debts = RateDebts(message) else { return }
    for debt in debts {
      guard let nanoseconds = debt.nanoseconds else { continue }
      learn(debt.id, nanoseconds, isOwn: false, now: now)
    }
  }

  private mutating func removeRecords(_ count: Int) {
    records.removeFirst(count)
    firstNumber &+= UInt32(count)
    (sent, misses) = (0, 0)
  }

  /// Takes the debt of a bucket at the store, to which own grants without a reply come in addition. `isOwn` tells
  /// whether the store knew then what this replica had told it.
  private mutating func learn(_ id: BucketID, _ debt: Int64, isOwn: Bool, now: Int64) {
    let place = place(of: id)
    guard place != nil || debt > 0 else { return }
    var entry = place.map { tables[id.table][place: $0] } ?? Entry(key: id.bits, fullAt: .min)
    var fullAt = now + debt
    if let index = index(of: entry) {
      let previous = Int(records[index].previous &- firstNumber)
      if previous < index { fullAt = records[previous].apply(to: fullAt) }
      fullAt = records[index].apply(to: fullAt)
    }
    if place == nil || isOwn || isConfirmed(entry) {
      entry.heard = mark(now)
    } else {
      fullAt = max(fullAt, entry.fullAt)
    }
    entry.fullAt = fullAt
    if let place { tables[id.table][place: place] = entry } else { tables[id.table].set(entry, now: now) }
  }

  func part(_ policy: ServiceLimit.Policy, _ bucket: Bucket, now: Int64) -> StrictTake.Part {
    let most = mostDebt(bucket.rate)
    let entry = place(of: bucket.id).map { tables[bucket.id.table][place: $0] }
    let unconfirmed = entry.map { isConfirmed($0) ? 0 : min(max(0, $0.fullAt - now), most) }
    return StrictTake.Part(
      policy: policy, id: bucket.id, bucket: bucket.rate, mostDebt: most, knownDebt: unconfirmed ?? 0)
  }

  /// Takes a decision of the store: never less than this replica knows. If it is a grant, the store knows as much.
  mutating func decided(_ id: BucketID, _ outcome: TokenBucket.TakeResult, isTaken: Bool, now: Int64) {
    let fullAt = isTaken ? outcome.fullAt : outcome.untakenFullAt
    guard let place = place(of: id) else {
      return tables[id.table].set(Entry(key: id.bits, fullAt: fullAt, heard: mark(now)), now: now)
    }
    tables[id.table][place: place].fullAt = max(tables[id.table][place: place].fullAt, fullAt)
    if isTaken { tables[id.table][place: place].heard = mark(now) }
  }

  /// Takes the state of the group. While the store does not work, each bucket has its part of the rate.
  mutating func changed(isTogether: Bool, replicas count: Int, now: Int64) {
    replicas = Int64(max(1, min(count, Self.mostReplicas)))
    mostDebtPerReplica = Int64.max / 4 / (replicas + 1)
    guard isTogether != self.isTogether else { return }
    self.isTogether = isTogether
    guard isTogether else {
      aloneSince = now
      return
    }
    reunion = mark(now)
    // The reply to the settlement on its way knows nothing of the grants of the pause.
    mayLackGrants = sent > 0
    // After a short pause the grants before it still count; a longer one has let most buckets fill.
    if aloneSince == .min || now - aloneSince > Self.second { return removeRecords(records.count) }
    for index in sent..<records.count {
      let id = records[index].id
      guard let place = place(of: id) else { continue }
      records[index].fullAt = max(records[index].fullAt, tables[id.table][place: place].fullAt)
    }
  }

  /// Whether the store knows what this replica knew of a bucket when the store came back.
  private func isConfirmed(_ entry: Entry) -> Bool { entry.heard > reunion }
  /// The present tick for an entry, after the reunion.
  private func mark(_ now: Int64) -> UInt32 { max(Self.tick(now), reunion + 1) }
  /// The time in units of 2²⁷ ns, about 134 ms, which 32 bits count for 18 years.
  private static func tick(_ now: Int64) -> UInt32 { UInt32(truncatingIfNeeded: now >> 27) & .max >> 1 }
}
