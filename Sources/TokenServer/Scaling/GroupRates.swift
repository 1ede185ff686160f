import Access
import EventLoop
import Redis

/// The store's decision about requests of strict clients.
protocol StrictStore: Sendable {
  /// Takes tokens at the store.
  ///
  /// - Parameter loop: The caller's loop.
  /// - Returns: The store's decision; nil if none came within `shared.timeout`.
  func reply(to take: StrictTake, on loop: IOLoop) async -> StrictReply?
}

/// The rates of callers, which the replicas settle every 100 ms.
final class GroupRates: GroupParticipant {
  private static let settlement = RedisScript(SharedRateScripts.settlement)
  private static let strict = RedisScript(SharedRateScripts.strict)

  /// What this replica knows of the rates.
  let rates: SharedRates
  let kind = GroupMessage.Kind.rates
  private let group: ReplicaGroup
  private let base: [UInt8]
  private let header: [UInt8]
  private let channel: [UInt8]

  /// Creates the rates of a group.
  init(_ group: ReplicaGroup, _ secret: GroupSecret) {
    self.group = group
    rates = SharedRates(secret.rates)
    base = group.key("rate:")
    header = group.header(.rates)
    channel = group.channel
  }

  func use(_ secret: GroupSecret) {
    rates.use(secret.rates)
  }

  // MARK: Settlement

  func settlement(at now: Deadline) -> ScriptCall? {
    guard let settlement = rates.settlement(now: now.nanoseconds) else { return nil }
    let sender = Array(header.suffix(8))
    let number = Array(String(settlement.sequence).utf8)
    return ScriptCall(
      script: Self.settlement, keys: [base], arguments: [sender, number, channel, header, settlement.buckets])
  }

  func settled(_ reply: RESPValue?, sentAt: Deadline, now: Deadline) {
    rates.settled(reply?.bytes, now: now.nanoseconds)
  }

  func received(_ payload: ArraySlice<UInt8>, now: Deadline) {
    rates.received(payload, now: now.nanoseconds)
  }

  // Swift 6.3.1 cannot optimize the group's call of it if it is inlined there: the compiler ends with an ownership error.
  @inline(never)
  func changed(_ state: GroupState) {
    let isTogether = if case .together = state { true } else { false }
    rates.changed(isTogether: isTogether, replicas: state.count, now: Deadline.now.nanoseconds)
  }
}

extension GroupRates: StrictStore {
  func reply(to take: StrictTake, on loop: IOLoop) async -> StrictReply? {
    guard let client = group.client(on: loop) else { return nil }
    return await withCheckedContinuation { continuation in
      client.run(
        Self.strict, keys: take.names.map { base + $0 }, arguments: [channel, header, take.buckets],
        until: loop.now.advanced(by: group.timeout)
      ) { result in
        continuation.resume(returning: (try? result.get()).flatMap { StrictReply($0) })
      }
    }
  }
}

extension StrictReply {
  /// Reads the reply of the script. Returns nil for anything else.
  init?(_ reply: RESPValue) {
    guard let numbers = reply.elements?.map(\.number).whole(), let isTaken = numbers.first, numbers.count <= 3 else {
      return nil
    }
    self.init(isTaken: isTaken == 1, debts: Array(numbers.dropFirst()))
  }
}

extension [Int64?] {
  /// The numbers; nil if one is missing.
  fileprivate func whole() -> [Int64]? {
    let numbers = compactMap { $0 }
    return numbers.count == count ? numbers : nil
  }
}
