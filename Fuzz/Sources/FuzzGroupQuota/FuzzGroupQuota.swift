import UpstreamAdmission

/// Entry point of libFuzzer: the input is what a store says to a replica that shares the quota, one item after another:
/// replies of settlements, messages and turns. Whatever it says, the limit stays within its bounds, and once the store
/// says nothing more, a request is sent within a minute.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzGroupQuota(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  var input = [UInt8](UnsafeBufferPointer(start: start, count: count))[...]
  var replica = Replica()
  while let kind = input.popFirst() {
    replica.now += .milliseconds(10)
    switch kind % 4 {
    case 0: replica.settle(input.take(8), input.take(Int(input.popFirst() ?? 0)), leads: kind & 4 != 0)
    case 1: replica.receive(Array(input.take(Int(input.popFirst() ?? 0))))
    case 2: replica.turns(input.take(8), input.take(8), input.take(8))
    default: replica.request(client: kind >> 2 & 3)
    }
    precondition((1...ConcurrencyLimits().maximum).contains(replica.limit.limit))
  }
  replica.checkThatItSends()
  return 0
}

private struct Replica {
  var limit = ConcurrencyLimit<Int>()
  var member = QuotaMember(id: 1, ConcurrencyLimits())
  var now = Duration.seconds(1)
  private var permits: [ConcurrencyPermit] = []

  init() {
    limit.join(3, seed: 1, now: now)
  }

  mutating func settle(_ time: UInt64, _ announcement: ArraySlice<UInt8>, leads: Bool) {
    _ = member.settlement(limit.report(now: now) ?? QuotaReport(), now: now)
    let reply = QuotaMember.Reply(
      time: Int64(bitPattern: time), leads: leads, term: UInt32(truncatingIfNeeded: time),
      announcement: Array(announcement))
    use(member.settled(reply, sentAt: now - .milliseconds(1), now: now))
    limit.reported(at: now)
  }

  mutating func receive(_ message: [UInt8]) {
    use(member.received(message[...], now: now))
  }

  private mutating func use(_ effects: QuotaMember.Effects) {
    if let team = effects.team { keep(limit.use(team, limit: member.limit, now: now)) }
  }

  mutating func turns(_ count: UInt64, _ start: UInt64, _ interval: UInt64) {
    _ = limit.turnRequest(now: now)
    let lease = member.lease(
      count: Int64(bitPattern: count), start: Int64(bitPattern: start), interval: Int64(bitPattern: interval))
    keep(limit.take(lease, now: now))
  }

  mutating func request(client: UInt8) {
    let caller = QuotaCaller(client: "\(client)", share: 0.5, rateLimitPrefix: "caller")
    if case .granted(let permit) = limit.acquire(.init(caller), waiter: 0, now: now) { permits.append(permit) }
    if permits.count > 2 { keep(limit.release(permits.removeFirst(), .limited(retryAfter: nil), now: now)) }
  }

  private mutating func keep(_ grants: [ConcurrencyLimit<Int>.Grant]) {
    permits += grants.map(\.permit)
  }

  mutating func checkThatItSends() {
    for permit in permits where !limit.release(permit, .answered, now: now).isEmpty { return }
    for _ in 0..<6200 {
      now += .milliseconds(10)
      let caller = QuotaCaller(client: "last", rateLimitPrefix: "caller")
      if case .granted = limit.acquire(.init(caller), waiter: 1, now: now) { return }
      if !limit.advance(now: now).isEmpty { return }
      if limit.turnRequest(now: now) != nil, !limit.take(nil, now: now).isEmpty { return }
    }
    preconditionFailure("nothing is sent for a minute")
  }
}

extension ArraySlice<UInt8> {
  fileprivate mutating func take(_ count: Int) -> ArraySlice<UInt8> {
    defer { self = dropFirst(count) }
    return prefix(count)
  }

  fileprivate mutating func take(_ count: Int) -> UInt64 {
    (take(count) as ArraySlice<UInt8>).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
