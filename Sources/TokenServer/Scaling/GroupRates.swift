import Access
import EventLoop
import Redis

/// The rates of callers, which the replicas settle every 100 ms.
final class GroupRates: GroupParticipant {
  private static let settlement = RedisScript(SharedRateScripts.settlement)
  private static let strict = RedisScript(SharedRateScripts.strict)

  let rates: RateLimiter
  let kind = GroupMessage.Kind.rates
  private let group: ReplicaGroup
  private let base: [UInt8]
  private let header: [UInt8]
  private let channel: [UInt8]

  init(_ group: ReplicaGroup, _ secret: GroupSecret) {
    (self.group, rates) = (group, RateLimiter(secret.rates))
    (base, header, channel) = (group.key("rate:"), group.header(.rates), group.channel)
  }

  func use(_ secret: GroupSecret) { rates.use(secret.rates) }

  func settlement(at now: Deadline) -> ScriptCall? {
    guard let settlement = rates.settlement(now: now.nanoseconds) else { return nil }
    let number = Array(String(settlement.sequence).utf8)
    let arguments = [Array(header.suffix(8)), number, channel, header, settlement.buckets]
    return ScriptCall(script: Self.settlement, keys: [base], arguments: arguments) { [self] in
      rates.settled($0?.bytes, now: group.client.loop.now.nanoseconds)
    }
  }

  func received(_ payload: ArraySlice<UInt8>, now: Deadline) { rates.received(payload, now: now.nanoseconds) }

  // Swift 6.3.1 cannot optimize the group's call of it if it is inlined there: the compiler ends with an ownership error.
  @inline(never)
  func changed(_ state: GroupState) {
    rates.changed(isTogether: state.isTogether, replicas: state.count, now: Deadline.now.nanoseconds)
  }

  /// Takes tokens of a strict client at the store.
  ///
  /// - Parameter loop: The caller's loop.
  /// - Returns: The store's decision; nil if none came within `shared.timeout`.
  func reply(to take: StrictTake, on loop: IOLoop) async -> StrictReply? {
    guard let client = group.client(on: loop) else { return nil }
    return await withCheckedContinuation { continuation in
      client.run(
        Self.strict, keys: take.names.map { base + $0 }, arguments: [channel, header, take.buckets],
        until: loop.now.advanced(by: group.timeout)
      ) { continuation.resume(returning: (try? $0.get()).flatMap { StrictReply($0) }) }
    }
  }
}

extension StrictReply {
  init?(_ reply: RESPValue) {
    guard let elements = reply.elements, (1...3).contains(elements.count) else { return nil }
    let numbers = elements.compactMap(\.number)
    guard numbers.count == elements.count else { return nil }
    self.init(isTaken: numbers[0] == 1, debts: Array(numbers.dropFirst()))
  }
}
